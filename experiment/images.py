"""Images from registries. Renovate raises their tags and adds their digests."""

from typing import Final

AWS_CLI: Final = (
    # This line keeps the parentheses, which a digest needs.
    "public.ecr.aws/aws-cli/aws-cli:2.36.15"
)
PYTHON: Final = (
    # As above.
    "public.ecr.aws/docker/library/python:3.12-slim-bookworm"
)
