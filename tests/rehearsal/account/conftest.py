"""The article's stacks in an account of their own, as far as its nodes need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deployment.account import Deployment
from rehearsal.aws.client import Aws, embedded_aws
from tests.rehearsal.account.stacks import NEEDED, make, prepare
from tests.synthesis import Synthesised


@pytest.fixture(scope="module")
def account(synthesised: Synthesised, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """An embedded AWS with them."""
    log = tmp_path_factory.mktemp("account") / "aws.log"
    with embedded_aws(synthesised.experiment.aws.region, log) as aws:
        prepare(aws)
        make(aws, synthesised, *NEEDED)
        yield aws


@pytest.fixture
def place(account: Aws, synthesised: Synthesised, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Where commands on it act."""
    for name, value in account.environment.items():
        monkeypatch.setenv(name, value)
    return Deployment(synthesised.experiment, "experiments/article.yaml", account.account)
