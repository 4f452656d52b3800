"""An embedded AWS, empty and with the article's stacks, started once for all tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from rehearsal.aws import Aws, embedded_aws
from rehearsal.cdk import Cdk
from tests.synthesis import ROOT, Synthesised

REGION = "us-east-2"
STACKS = ("article-model-store", "article-observability")


class Deployed(NamedTuple):
    aws: Aws
    left_out: Counter[str]


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """An AWS that nothing was deployed to."""
    with embedded_aws(REGION, tmp_path_factory.mktemp("aws") / "aws.log") as aws:
        yield aws


@pytest.fixture(scope="session")
def deployed(
    synthesised: Synthesised, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """Another one, with the article's bucket, roles and dashboards."""
    logs = tmp_path_factory.mktemp("deployed")
    cdk = Cdk(ROOT, synthesised.directory, logs)
    with embedded_aws(REGION, logs / "aws.log") as aws:
        cdk.bootstrap(aws)
        yield Deployed(aws, cdk.deploy(aws, STACKS))
