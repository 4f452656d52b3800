"""Destroying: what goes, what stays and is taken back, and what has to be typed."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from tests.conftest import edited
from tests.deployment.fake_aws.whole import STACKS, Whole, whole


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("account")
    file = edited(folder, {"benchmark.image": "registry.example/benchmark:1"})
    with whole(folder, file) as account:
        yield account


@pytest.fixture
def deployed(account: Whole) -> Whole:
    """With all stacks, and a file in the bucket."""
    assert account.run("deploy", "--yes") == 0, account.output
    store = boto3.client("s3", "us-east-2")
    store.put_object(Bucket=account.cluster.bucket, Key="compiled/key/model.pt", Body=b"hours")
    return account


def buckets() -> set[str]:
    return {bucket["Name"] for bucket in boto3.client("s3", "us-east-2").list_buckets()["Buckets"]}


def test_destroying_what_is_not_there_fails(account: Whole) -> None:
    assert account.run("destroy", "--yes") == 1
    assert "nothing of experiment article is in account" in account.output
    assert "No experiment has stacks there" in account.output


def test_a_destroyed_experiment_can_be_deployed_again(deployed: Whole) -> None:
    assert deployed.run("destroy", "--yes") == 0, deployed.output
    assert deployed.stacks == {}
    for stack in STACKS:
        assert f"article-{stack} " in deployed.output
    cost = "less than 0.1 GiB, 0.00 USD a month"
    assert f"{deployed.cluster.bucket} ({cost}) stays; make deploy takes it back" in deployed.output
    assert deployed.run("deploy", "--yes") == 0, deployed.output
    store = boto3.client("s3", "us-east-2")
    kept = store.get_object(Bucket=deployed.cluster.bucket, Key="compiled/key/model.pt")
    assert kept["Body"].read() == b"hours"


def test_without_a_terminal_nothing_is_deleted_unasked(deployed: Whole) -> None:
    assert deployed.run("destroy") == 1
    assert "there is no terminal to ask on; YES=1 deletes without asking" in deployed.output
    assert len(deployed.stacks) == len(STACKS)


def test_everything_goes_only_with_the_name_typed(deployed: Whole) -> None:
    assert deployed.run("destroy", typed="n") == 1
    assert "Delete these stacks (y/n)?" in deployed.output
    all_of_it = ("destroy", "--keep", "none")
    assert deployed.run(*all_of_it, typed="y") == 1
    assert f"{deployed.cluster.bucket} (" in deployed.output
    assert ") will be deleted for good" in deployed.output
    for given, said in (
        (("--yes",), "KEEP=none wants NAME=article as well as YES=1"),
        (("--yes", "--name", "again"), "NAME = 'again': the experiment is article"),
    ):
        assert deployed.run(*all_of_it, *given) == 1
        assert said in deployed.output
    assert len(deployed.stacks) == len(STACKS)

    assert deployed.run("destroy", typed="y") == 0, deployed.output
    assert deployed.stacks == {}
    assert deployed.cluster.bucket in buckets()

    # What an earlier destroy has left can still be removed.
    assert deployed.run(*all_of_it, typed="article") == 0, deployed.output
    assert f"{deployed.cluster.bucket} is deleted" in deployed.output
    assert deployed.cluster.bucket not in buckets()
