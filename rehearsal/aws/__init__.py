"""The embedded AWS, the CDK CLI against it, and what must be true of both in the end."""
