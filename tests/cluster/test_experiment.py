"""``make experiment`` from the file to the verdict, in an embedded account with a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from charts.names import COMPILE_NODES, TRAINIUM_NODES
from rehearsal.account import timeline
from rehearsal.account.world import World
from rehearsal.aws.calls import action
from spectap.names import RESULTS_PREFIX
from tests.cluster.holding import holds, sizes
from tests.cluster.way import CALLER, STAGES, Way, begun
from tests.stacks.test_delivery import allowed, synthesise


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Way]:
    """That of the article's services."""
    with begun(tmp_path, {}) as its:
        yield its


def test_the_whole_way(way: Way, tmp_path: Path) -> None:
    before = len(way.world.aws.calls(CALLER))
    way.run()
    assert way.stages() == [*STAGES]
    holds(way)
    # Once more: everything is there.
    started = len(way.world.kubelets.record)
    way.run()
    assert len(way.world.kubelets.record) == started
    holds(way)
    for command in ("preflight", "status", "logs", "results", "start --yes", "stop"):
        way.run(*command.split())
    way.run("destroy", "--yes")
    # The role of the workflows may do whatever these commands ask for.
    asked = {action(call) for call in way.world.aws.calls(CALLER)[before:]}
    allowed_to_all = {"sts:GetCallerIdentity"}
    assert asked - allowed_to_all <= allowed(synthesise(tmp_path), "Deploy").keys()


def test_killed_at_each_stage_it_ends_the_same(way: Way) -> None:
    # What begins by itself would be over before the next call comes to it.
    way.world.held.update(("vllm", "llmperf"))
    for stage in STAGES:
        way.kill_at(stage, _AMID.get(stage))
        if stage == "serve":
            way.world.held.discard("vllm")
    way.run()
    holds(way)


def _has_cluster(account: World) -> bool:
    found = account.aws.client("cloudformation").list_stacks()["StackSummaries"]
    return any(stack["StackName"].endswith("-cluster") for stack in found)


def _plays(step: str) -> Callable[[World], bool]:
    return lambda account: any(("step", step) in pod.labels for pod in account.kubelets.record)


def _stand(label: str) -> Callable[[World], bool]:
    return lambda account: any(sizes(account, label))


def _measures(account: World) -> bool:
    """From now on it does; whether it has brought something into the bucket."""
    account.held.discard("llmperf")
    return bool(timeline.written(account, RESULTS_PREFIX))


_AMID: Final[dict[str, Callable[[World], bool]]] = {
    "deploy": _has_cluster,
    "download": _plays("download"),
    "compile": _stand(COMPILE_NODES),
    "start": _stand(TRAINIUM_NODES),
    "serve": lambda account: "vllm" in account.held,
    "benchmark": _measures,
}
"""By which a stage is known to be under way."""
