"""An embedded AWS, empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rehearsal.aws.client import Aws, embedded_aws

REGION = "us-east-2"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """One for the tests of a module."""
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws
