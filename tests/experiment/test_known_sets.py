"""The prompt sets of experiment files are those of the benchmark."""

from __future__ import annotations

from benchmark.load.sets import KNOWN
from experiment.known_sets import KnownSet


def test_experiment_and_benchmark_know_the_same_sets() -> None:
    assert {known.value: known.has_tools for known in KnownSet} == {
        name: known.has_tools for name, known in KNOWN.items()
    }
