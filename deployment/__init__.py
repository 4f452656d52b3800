"""What acts on an AWS account, with the credentials of whoever calls it."""
