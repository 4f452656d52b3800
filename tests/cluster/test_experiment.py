"""``make experiment`` from the file to the verdict, in an embedded account with a real cluster."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from benchmark.names import RESULTS_PREFIX
from charts.names import COMPILE_NODES, COMPILED_PREFIX, TRAINIUM_NODES
from experiment import load
from experiment.variants import variants
from rehearsal.account import timeline
from rehearsal.account.small import write_small
from rehearsal.account.world import World, world
from tests.experiment.files import ARTICLE
from tests.rehearsal.test_sweep import checkout
from tests.synthesis import ROOT

STAGES: Final = (
    *("preflight", "deploy", "download", "compile", "start"),
    *("serve", "benchmark", "stop", "results"),
)
SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.1


@dataclass
class Way:
    """An account, and every time that ``make experiment`` was called in it."""

    world: World
    file: Path
    root: Path
    calls: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Every time that a command was called."""

    def start(self) -> subprocess.Popen[bytes]:
        """Calls it, in a process group of its own."""
        return self._call("experiment", "--yes")

    def run(self, *words: str) -> int:
        """Calls a command and waits for its end."""
        return self._call(*words).wait(SECONDS)

    def shown(self) -> str:
        """What the newest call has printed until now."""
        return self._log(len(self.calls)).read_text(encoding="utf-8")

    def _call(self, *words: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-u", "-m", "deployment", *words, "--experiment", str(self.file)]
        with self._log(len(self.calls) + 1).open("wb") as log:
            called = subprocess.Popen(
                line,
                cwd=self.root,
                env=dict(self.world.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.calls.append(called)
        return called

    def kill(self) -> None:
        """Ends the newest call, and all that it has started, without a word to them."""
        if self.calls and self.calls[-1].poll() is None:
            os.killpg(self.calls[-1].pid, signal.SIGKILL)
            self.calls[-1].wait()

    def _log(self, number: int) -> Path:
        return self.root / f"call-{number}.log"


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Way]:
    """A bootstrapped account without stacks."""
    if os.environ.get("KUBECONFIG"):
        pytest.skip("the account needs an API server that asks it whose a token is")
    root = tmp_path / "checkout"
    root.mkdir()
    checkout(root)
    shutil.copytree(ROOT / "deployment", root / "deployment", dirs_exist_ok=True)
    file = write_small(str(ARTICLE), tmp_path / "experiments")
    with world(load(str(file)), ROOT, tmp_path / "account") as account:
        its = Way(account, file, root)
        try:
            assert its.run("bootstrap") == 0, its.shown()
            yield its
        finally:
            its.kill()


def test_the_whole_way(way: Way) -> None:
    assert way.run("experiment", "--yes") == 0, way.shown()
    way.world.check()
    assert [stage for stage in STAGES if f"] {stage}\n" in way.shown()] == [*STAGES]
    _holds(way)
    (run,) = _runs(way)
    assert (way.root / "results" / run / "report.html").is_file()
    # Once more: everything is there.
    started = len(way.world.kubelets.record)
    assert way.run("experiment", "--yes") == 0, way.shown()
    assert len(way.world.kubelets.record) == started
    _holds(way)


def test_killed_at_each_stage_it_ends_the_same(way: Way) -> None:
    for stage in STAGES:
        _kill_at(way, stage)
    assert way.run("experiment", "--yes") == 0, way.shown()
    way.world.check()
    _holds(way)
    (run,) = _runs(way)
    assert (way.root / "results" / run / "report.html").is_file()


def _kill_at(way: Way, stage: str) -> None:
    """Kills it in the middle of a stage, as far as that can be seen from outside."""
    process = way.start()
    following = STAGES[STAGES.index(stage) + 1 :]
    is_amid = _AMID.get(stage, _at_once)
    deadline = time.monotonic() + SECONDS
    while process.poll() is None:
        assert time.monotonic() < deadline, way.shown()
        way.world.check()
        shown = way.shown()
        if f"] {stage}\n" in shown and is_amid(way.world):
            break
        if any(f"] {later}\n" in shown for later in following):
            break
        time.sleep(_POLL_SECONDS)
    assert process.poll() in (None, 0), way.shown()
    way.kill()


def _at_once(account: World) -> bool:
    return bool(account)


def _has_cluster(account: World) -> bool:
    found = account.aws.client("cloudformation").list_stacks()["StackSummaries"]
    return any(stack["StackName"].endswith("-cluster") for stack in found)


def _plays(step: str) -> Callable[[World], bool]:
    return lambda account: any(("step", step) in pod.labels for pod in account.kubelets.record)


def _stand(label: str) -> Callable[[World], bool]:
    return lambda account: any(size for _, size in timeline.sizes(account).get(label, []))


_AMID: Final[dict[str, Callable[[World], bool]]] = {
    "deploy": _has_cluster,
    "download": _plays("download"),
    "compile": _stand(COMPILE_NODES),
    "start": _stand(TRAINIUM_NODES),
    "benchmark": lambda account: bool(timeline.written(account, RESULTS_PREFIX)),
}
"""By which a stage is known to be under way."""


def _holds(way: Way) -> None:
    """What is true however often it was called: paid only while measuring, nothing made twice."""
    account = way.world
    graphs = _markers(way, COMPILED_PREFIX)
    assert len(graphs) == len(variants(account.experiment))
    (last,) = _markers(way, RESULTS_PREFIX).values()
    sizes = timeline.sizes(account)
    assert [size for _, size in sizes[TRAINIUM_NODES]] == [0, 1, 0]
    _, (up, _), (down, _) = sizes[TRAINIUM_NODES]
    assert up >= max(graphs.values())
    assert down >= last
    assert sizes[COMPILE_NODES][-1][1] == 0
    assert max(size for _, size in sizes[COMPILE_NODES]) == len(graphs)
    pods = Counter(_job(dict(pod.labels)) for pod in account.kubelets.record)
    services = {variant.service for variant in variants(account.experiment)}
    assert {job: count for job, count in pods.items() if job not in services} == {
        job: 1 for job in pods if job not in services
    }
    executed = account.aws.calls().count("cloudformation:ExecuteChangeSet")
    stacks = account.aws.client("cloudformation").describe_stacks()["Stacks"]
    assert executed == len(stacks)


def _markers(way: Way, prefix: str) -> dict[str, datetime.datetime]:
    found = timeline.written(way.world, prefix)
    return {key: time for key, time in found.items() if key.endswith(f"/{timeline.MARKER}")}


def _runs(way: Way) -> set[str]:
    return {key.split("/")[1] for key in timeline.written(way.world, RESULTS_PREFIX)}


def _job(labels: dict[str, Any]) -> str:
    return str(labels.get("batch.kubernetes.io/job-name") or labels["app"])
