"""Where results and metrics go: S3 and CloudWatch."""
