"""What becomes of the nodes when a stage of ``make experiment`` has failed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deployment.errors import DeploymentError
from deployment.place import Place
from deployment.stages import command
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed
from deployment.stages.store import Store
from rehearsal.aws.client import Aws
from tests.deployment.api import Objects
from tests.deployment.kube import container, ended
from tests.deployment.test_nodes import sizes
from tests.deployment.test_stages_failures import place_with_nodes, pod, scaled_by_hand

At = Callable[..., Place]


@dataclass(frozen=True)
class Failing:
    """A stage that needs nodes."""

    error: DeploymentError
    name = "serve"
    costs = True

    def there(self) -> str | None:
        return None

    def perform(self, shown: Shown) -> str:
        raise self.error


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Goes the way of one stage that fails; returns the exit status."""

    def fails(place: Place, error: DeploymentError, *, terminal: bool = False) -> int:
        monkeypatch.setattr(command, "stages", lambda way: [Failing(error)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal, raising=False)
        return command.experiment(place, yes=True, again=False)

    return fails


@pytest.mark.parametrize(
    ("then", "terminal", "left"),
    [("stop", False, 0), ("stop", True, 0), ("keep", False, 0), ("keep", True, 1)],
)
@pytest.mark.usefixtures("api")
def test_nodes_stay_only_for_somebody_who_wants_to_look(
    aws: Aws, at: At, fails: Callable[..., int], then: str, terminal: bool, left: int
) -> None:
    name = f"fails-{then}-{terminal}".lower()
    place = place_with_nodes(aws, at, name, {"capacity.after_failure": then})
    scaled_by_hand(aws, place, 1)
    assert fails(place, StageFailed("it never serves"), terminal=terminal) == 1
    assert sizes(place)["trainium"] == left


def test_the_logs_are_in_the_bucket_first(
    aws: Aws,
    at: At,
    api: Objects,
    fails: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = place_with_nodes(aws, at, "fails-logged")
    scaled_by_hand(aws, place, 1)
    store = Store(place)
    aws.client("s3").create_bucket(
        Bucket=store.bucket, CreateBucketConfiguration={"LocationConstraint": place.region}
    )
    last = ended(3, finishedAt="2026-11-22T10:00:00Z")
    again = container("vllm", {"running": {}}, last=last, restarts=1)
    status = {"phase": "Running", "containerStatuses": [again]}
    api.lists["pods"] = [pod("qwen-vllm-1", {"app": "qwen-vllm"}, status)]
    api.logs["qwen-vllm-1/vllm"] = "starts\n"
    api.logs["qwen-vllm-1/vllm/previous"] = "nrt_init failed: Größe\n"

    assert fails(place, StageFailed("it never serves")) == 1

    assert {key.partition("/qwen")[2]: store.read(key) for key in store.keys("logs/")} == {
        "-vllm-1/vllm.log": b"starts\n",
        "-vllm-1/vllm.previous.log": "nrt_init failed: Größe\n".encode(),
    }
    told = capsys.readouterr()
    assert told.err.startswith("it never serves\nlogs of all pods: s3://")
    assert "trainium nodes: scaled to 0 (capacity.after_failure)" in told.err
    assert "no Trainium node and no compile node" in told.out


def test_logs_that_cannot_be_kept_keep_no_node(
    aws: Aws, at: At, api: Objects, fails: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    place = place_with_nodes(aws, at, "fails-unlogged")
    scaled_by_hand(aws, place, 1)
    api.refused.add("pods")
    assert fails(place, StageFailed("it never serves")) == 1
    assert "logs are not kept: " in capsys.readouterr().err
    assert sizes(place)["trainium"] == 0


@pytest.mark.usefixtures("api")
def test_who_is_only_out_of_reach_ends_nothing(aws: Aws, at: At, fails: Callable[..., int]) -> None:
    """A run in the cluster goes on, and ends its nodes itself."""
    place = place_with_nodes(aws, at, "fails-unheard")
    scaled_by_hand(aws, place, 1)
    assert fails(place, DeploymentError("AWS: no route")) == 1
    assert sizes(place)["trainium"] == 1


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(("emails", "warns"), [([], True), (["team@example.com"], False)])
def test_the_question_says_that_nobody_is_told(
    aws: Aws,
    at: At,
    fails: Callable[..., int],
    emails: list[str],
    warns: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = place_with_nodes(aws, at, f"asks-{len(emails)}", {"alerts.emails": emails})
    fails(place, StageFailed("it never serves"))
    asked = capsys.readouterr().out
    assert ("Warning: alerts.emails is empty: no alarm reaches anybody" in asked) is warns
