"""A pod's containers, one after another and beside each other, as a kubelet runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from rehearsal.offline.pod import Container, Plan
from tests.rehearsal.left import in_group, left_in_group
from tests.synthesis import ROOT

Scripts = Mapping[str, str]


def command(folder: Path, begin: Scripts, then: Scripts) -> list[str]:
    """Scripts by the container's name."""

    def container(name: str, script: str) -> Container:
        log = str(folder / f"{name}.log")
        return Container(name, ["bash", "-c", script], dict(os.environ), log, str(folder))

    plan = Plan([container(*one) for one in begin.items()], [container(*o) for o in then.items()])
    plan.write(folder / "pod.json")
    return [sys.executable, "-m", "rehearsal.offline.pod", str(folder / "pod.json")]


def ran(folder: Path, begin: Scripts, then: Scripts) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, begin, then), cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_those_that_stay_run_at_the_same_time_after_those_that_begin(tmp_path: Path) -> None:
    waits = "test -e begun; touch {0}; until test -e {1}; do sleep 0.01; done"
    done = ran(
        tmp_path,
        {"first": "touch begun"},
        {"one": waits.format("a", "b"), "other": waits.format("b", "a")},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_follows_what_fails_at_the_beginning(tmp_path: Path) -> None:
    done = ran(tmp_path, {"first": "echo no; exit 75"}, {"one": "touch ran"})
    assert done.returncode == 75
    assert done.stderr == "first: ended with 75: no\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("one", "other", "status"),
    [
        ("exit 0", "echo why; exit 3", 3),
        ("exit 69", "exit 1", 69),
        ("kill -9 $$", "exit 1", 137),
    ],
)
def test_it_fails_by_the_first_that_failed_once_both_have_ended(
    tmp_path: Path, one: str, other: str, status: int
) -> None:
    done = ran(tmp_path, {}, {"one": one, "other": f"touch ran; {other}"})
    assert done.returncode == status
    assert (tmp_path / "ran").exists()


def test_a_pod_that_is_killed_is_killed_as_a_whole(tmp_path: Path) -> None:
    script = "touch ran; sleep 600"
    with subprocess.Popen(
        command(tmp_path, {}, {"one": script}), cwd=ROOT, start_new_session=True
    ) as process:
        while not (tmp_path / "ran").exists():
            time.sleep(0.02)
        assert len(in_group(process.pid)) > 1
        os.killpg(process.pid, signal.SIGKILL)
    assert left_in_group(process.pid) == set()
