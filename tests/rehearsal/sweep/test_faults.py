"""Faults are made only in what is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.sweep.faults import NO_FAULTS, Faults
from tests.synthesis import ROOT


def test_indexes_of_the_sweep() -> None:
    Faults(frozenset({0, 5}), frozenset({5})).check(6)
    NO_FAULTS.check(0)


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        (Faults(killed=frozenset({6})), r"^--kill 6: the sweep has the indexes 0 to 5$"),
        (Faults(broken=frozenset({-1, 2})), r"^--break -1: the sweep has the indexes 0 to 5$"),
    ],
)
def test_an_index_that_there_is_not(faults: Faults, problem: str) -> None:
    with pytest.raises(RehearsalError, match=problem):
        faults.check(6)


def test_an_experiment_without_a_sweep_is_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "rehearsal", "experiments/article.yaml", "--break", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "rehearsal: --break 1: the experiment has no sweep\n"


def test_faults_are_said() -> None:
    assert Faults(frozenset({2, 1}), frozenset({4})).said == (
        "faults: index 1 killed once, in the middle",
        "faults: index 2 killed once, in the middle",
        "faults: index 4 without a server",
    )
