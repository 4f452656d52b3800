"""Destroying: what goes, what stays and is taken back, and what has to be typed."""

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import aws_cdk as cdk
import pytest

from app import compose
from operations import lifecycle, removal
from operations.account import Deployment
from tests.experiment.files import REGION
from tests.operations.conftest import operating, put, rendered
from tests.operations.fake_aws import ACCOUNT, FakeAws
from tests.operations.operators import STACKS, Operator
from tests.synthesis import CONTEXT

BUCKET = f"article-models-{ACCOUNT}-{REGION}"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with operating(tmp_path_factory.mktemp("account"), {}) as account:
        yield account


@pytest.fixture
def deployed(account: Operator) -> Operator:
    """With all stacks, and a file in the bucket."""
    assert account.run("deploy", "--yes") == 0, account.output
    account.aws.store.put(BUCKET, "compiled/key/model.pt", "hours")
    return account


def test_a_destroyed_experiment_can_be_deployed_again(deployed: Operator) -> None:
    assert deployed.run("destroy", "--yes") == 0, deployed.output
    assert deployed.aws.cloudformation.stacks == {}
    for stack in STACKS:
        assert f"article-{stack} " in deployed.output
    cost = "less than 0.1 GiB, 0.00 USD a month"
    assert f"{BUCKET} ({cost}) stays; make deploy takes it back" in deployed.output
    assert deployed.run("deploy", "--yes") == 0, deployed.output
    bucket = deployed.aws.store.buckets[BUCKET]
    assert bucket["compiled/key/model.pt"][0] == b"hours"
    assert deployed.run("destroy", "--yes") == 0, deployed.output
    assert deployed.run("destroy", "--yes") == 1
    assert "nothing of experiment article is in account" in deployed.output


def test_everything_goes_only_with_the_name_typed(deployed: Operator) -> None:
    assert deployed.run("destroy", typed="n") == 1
    assert "Delete these stacks (y/n)?" in deployed.output
    all_of_it = ("destroy", "--keep", "none")
    assert deployed.run(*all_of_it, typed="y") == 1
    assert f"{BUCKET} (" in deployed.output
    assert ") will be deleted for good" in deployed.output
    assert deployed.run("destroy") == 1
    assert "there is no terminal to ask on; YES=1 deletes without asking" in deployed.output
    for arguments, refusal in (
        (("--yes",), "KEEP=none wants NAME=article as well as YES=1"),
        (("--yes", "--name", "again"), "NAME = 'again': the experiment is article"),
    ):
        assert deployed.run(*all_of_it, *arguments) == 1
        assert refusal in deployed.output
    assert len(deployed.aws.cloudformation.stacks) == len(STACKS)

    assert deployed.run("destroy", typed="y") == 0, deployed.output
    assert deployed.aws.cloudformation.stacks == {}
    assert BUCKET in deployed.aws.store.buckets

    # What an earlier destroy has left can still be removed.
    assert deployed.run(*all_of_it, typed="article") == 0, deployed.output
    assert f"{BUCKET} is deleted" in deployed.output
    assert BUCKET not in deployed.aws.store.buckets


def test_commands_read_what_synthesis_writes(
    aws: FakeAws, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an account names and manifests are literal."""
    app = cdk.App(outdir=str(tmp_path), context=CONTEXT)
    compose(app, deployment.experiment, ACCOUNT)
    app.synth()
    monkeypatch.setattr(lifecycle, "assembly", lambda _: tmp_path)
    monkeypatch.setattr(lifecycle, "run", lambda *_, **__: CompletedProcess((), 0))
    stacks = {stack.name for stack in lifecycle.synthesised(deployment)}
    assert stacks == {f"article-{label}" for label in STACKS}
    put(aws, "compiled/key/model.pt", body="hours")
    (bucket, *_) = removal.retained(deployment, sorted(stacks))
    assert (bucket.name, bucket.bytes) == (BUCKET, 5)
    manifests = lifecycle.manifests(deployment)
    expected = [(m["kind"], m["metadata"]["name"]) for m in rendered(deployment.experiment)]
    assert [(m["kind"], m["metadata"]["name"]) for m in manifests] == expected
    assert "Token[" not in json.dumps(manifests)
