"""Faults are made only in what is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.sweep.faults import NO_FAULTS, Faults
from tests.synthesis import ROOT


def test_indexes_of_the_sweep() -> None:
    Faults(frozenset({0, 5}), frozenset({4})).check(6)
    NO_FAULTS.check(0)


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        (Faults(killed=frozenset({6})), r"^--kill 6: the experiment has the indexes 0 to 5$"),
        (Faults(broken=frozenset({-1, 2})), r"^--break -1: the experiment has the indexes 0 to 5$"),
        (
            Faults(frozenset({1, 2}), frozenset({2})),
            r"^--kill 2: must not be that of --break",
        ),
    ],
)
def test_an_index_that_there_is_not(faults: Faults, problem: str) -> None:
    with pytest.raises(RehearsalError, match=problem):
        faults.check(6)


@pytest.mark.parametrize(
    ("file", "options", "status", "line"),
    [
        ("article", "--break 1", 1, "--break 1: the experiment has neither a sweep nor jobs"),
        ("article-sweep", "--kill 99", 1, "--kill 99: the experiment has the indexes 0 to 8"),
        ("article-sweep", "--kill 2 --break 2", 1, "--kill 2: must not be that of --break too, "),
        ("article-sweep", "--break a", 2, "argument --break: invalid int value: 'a'"),
    ],
)
def test_what_cannot_be_done_is_one_line(file: str, options: str, status: int, line: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "rehearsal", f"experiments/{file}.yaml", *options.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (status, "")
    assert ended.stderr.startswith(f"rehearsal: {line}")
    assert ended.stderr.count("\n") == 1


def test_faults_are_said() -> None:
    assert Faults(frozenset({2, 1}), frozenset({4})).said == (
        "faults: index 1 killed once, in the middle",
        "faults: index 2 killed once, in the middle",
        "faults: index 4 without a server, or without output",
    )
