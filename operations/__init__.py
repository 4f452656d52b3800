"""Commands on an AWS account, with the credentials of whoever calls them."""
