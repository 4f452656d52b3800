"""Images from registries, by digest where it is known.

A tag may name another image tomorrow. ``make digests`` asks the registries what it names now, and
writes that to ``digests.json``.
"""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

AWS_CLI: Final = "public.ecr.aws/aws-cli/aws-cli:2.36.15"
PYTHON: Final = "public.ecr.aws/docker/library/python:3.12-slim-bookworm"

FILE: Final = Path(__file__).parent / "digests.json"
"""Digests by image and tag."""


def pinned(image: str) -> str:
    """The image with its digest, if that is known. The tag stays, for people."""
    digest = known(FILE).get(image)
    return f"{image}@{digest}" if digest else image


@functools.cache
def known(file: Path) -> Mapping[str, str]:
    """Digests by image, from a file."""
    digests: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return digests
