"""Indexes start, end and are retried as the Job controller does it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rehearsal import RehearsalError
from rehearsal.indexes import Attempt, control
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

    def play(
        self, indexes: int, retries: int, at_once: int, *final: int, seconds: float = 60
    ) -> None:
        for event in control(indexes, retries, at_once, self.start, seconds, final):
            if event.started:
                self.events.append(("started", event.attempt))
            elif event.status is not None:
                assert event.attempt not in self.running, "told once the pod is gone"
                status = f"{event.status}{', retried' if event.retried else ''}"
                self.events.append((status, event.attempt))
            elif self._commands.get(event.attempt.index) == LONG:
                event.process.kill()

    def of(self, index: int) -> list[tuple[str, int]]:
        return [(event, attempt.number) for event, attempt in self.events if attempt.index == index]


def test_an_index_that_fails_is_retried_alone_and_given_up(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {1: "exit 3"})
    pods.play(3, 1, 2)
    assert pods.most == 2
    assert pods.of(1) == [("started", 1), ("3, retried", 1), ("started", 2), ("3", 2)]
    assert pods.of(0) == pods.of(2) == [("started", 1), ("0", 1)]


def test_some_statuses_are_final_and_a_retry_waits_for_those_not_tried(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: LONG, 1: "exit 69"})
    pods.play(3, 1, 1, 69)
    assert pods.of(0) == [("started", 1), ("-9, retried", 1), ("started", 2), ("-9", 2)]
    started = [attempt for event, attempt in pods.events if event == "started"]
    assert started == [Attempt(0), Attempt(1), Attempt(2), Attempt(0, 2)]
    assert pods.of(1) == [("started", 1), ("69", 1)]


def test_nothing_is_left_of_what_takes_too_long(tmp_path: Path) -> None:
    pods = Pods(tmp_path, {0: "sleep 60 & wait"})
    with pytest.raises(RehearsalError, match=r"^did not end within 0 s$"):
        pods.play(1, 0, 1, seconds=0)
    assert not pods.running
    (group,) = pods.groups
    assert not left_in_group(group)
