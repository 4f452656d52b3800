"""Indexes start, end and are retried as the Job controller does it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rehearsal import RehearsalError
from rehearsal.controller import Attempt, control
from rehearsal.processes import Process, running
from tests.rehearsal.left import left_in_group

LONG = "sleep 60"


class Pods:
    """What each index runs, a shell command; and what became of it."""

    def __init__(self, folder: Path, commands: Mapping[int, str]) -> None:
        self._folder, self._commands = folder, commands
        self.events: list[tuple[str, Attempt]] = []
        self.running: set[Attempt] = set()
        self.most = 0
        self.groups: list[int] = []

    @contextlib.contextmanager
    def start(self, attempt: Attempt) -> Iterator[Process]:
        self.running.add(attempt)
        self.most = max(self.most, len(self.running))
        command = self._commands.get(attempt.index, "exit 0")
        log = self._folder / f"{attempt.index}-{attempt.number}"
        try:
            with running(["sh", "-c", command], os.environ, log) as process:
                self.groups.append(process.pid)
                yield process
        finally:
            self.running.remove(attempt)

    def started(self, attempt: Attempt) -> None:
        assert attempt in self.running
        self.events.append(("started", attempt))

    def runs(self, attempt: Attempt, process: Process) -> None:
        if self._commands.get(attempt.index) == LONG and attempt.number == 1:
            process.send_signal(signal.SIGKILL)

    def complete(self, attempt: Attempt) -> None:
        assert attempt not in self.running, "it is told once the pod is gone"
        self.events.append(("complete", attempt))

    def failed(self, attempt: Attempt, status: int, *, retried: bool) -> None:
        assert attempt not in self.running
        self.events.append((f"failed {status}{', retried' if retried else ''}", attempt))

    def of(self, index: int) -> list[tuple[str, int]]:
        return [(event, attempt.number) for event, attempt in self.events if attempt.index == index]


def test_an_index_that_fails_is_retried_alone_and_given_up(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {1: "exit 3"})
    control(3, 2, 2, pods.start, pods, 60)
    assert pods.most == 2
    assert pods.of(1) == [
        *(("started", 1), ("failed 3, retried", 1)),
        *(("started", 2), ("failed 3, retried", 2)),
        *(("started", 3), ("failed 3", 3)),
    ]
    for index in (0, 2):
        assert pods.of(index) == [("started", 1), ("complete", 1)]


def test_an_index_that_another_try_would_not_help_is_given_up_at_once(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: "exit 69", 1: "exit 1"})
    control(2, 1, 2, pods.start, pods, 60, final={69})
    assert pods.of(0) == [("started", 1), ("failed 69", 1)]
    assert [number for event, number in pods.of(1) if event == "started"] == [1, 2]


def test_a_retry_waits_for_those_that_were_not_tried(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: "exit 1"})
    control(3, 1, 1, pods.start, pods, 60)
    started = [attempt for event, attempt in pods.events if event == "started"]
    assert started == [Attempt(0), Attempt(1), Attempt(2), Attempt(0, 2)]


def test_who_watches_can_kill_what_runs(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: LONG})
    control(1, 0, 1, pods.start, pods, 60)
    assert pods.of(0) == [("started", 1), ("failed -9", 1)]


def test_nothing_is_left_of_what_takes_too_long(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: f"{LONG} & wait"})
    with pytest.raises(RehearsalError, match=r"^did not end within 0 s$"):
        control(1, 0, 1, pods.start, pods, 0)
    assert not pods.running
    (group,) = pods.groups
    assert not left_in_group(group)
