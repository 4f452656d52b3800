"""Rehearsals of a sweep, of jobs, and of services, on golden endpoints and an embedded AWS."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from experiment import Experiment, load
from rehearsal.errors import RehearsalError
from rehearsal.indexes import RECORDED, Faults
from spectap.config import Config
from spectap.ledger import read_ledger
from spectap.record import Record
from tests.experiment.files import EXPERIMENTS, VANILLA, swept
from tests.rehearsal.conftest import Rehearse, Rehearsed

BASE, KILLED, BROKEN = "Base", "k3", "k5"
SHORT: Final[dict[str, Any]] = {
    "benchmark.requests": 4,
    "benchmark.rounds": 2,
    "benchmark.test_cases": [
        {
            "name": "repeat-line",
            "line": "Repeat the following line exactly 50 times",
            "structure": "structured",
            "headline": True,
        },
    ],
}
DRAFTS: Final = 3
"""Of experiments/eagle3.yaml, in a step."""


@pytest.fixture(scope="module")
def sweep(rehearse: Rehearse, variation: Callable[[dict[str, Any]], Experiment]) -> Rehearsed:
    """With a key. One index is killed once, another has no server."""
    changes = swept(windows=[3, 5]) | SHORT | {"serving.api_key": True}
    return rehearse(variation(changes), Faults(frozenset({1}), frozenset({2})))


def events(rehearsed: Rehearsed, variant: str) -> list[str]:
    """What was printed of an index, without times and reasons."""
    lines = re.findall(rf"^ *index \d, {variant}: (.*)$", rehearsed.printed, re.MULTILINE)
    return [re.sub(r"^complete.*|^.*; ", lambda m: m[0][:8] * (m[0][0] == "c"), x) for x in lines]


def ledger(rehearsed: Rehearsed, variant: str) -> list[Record]:
    """What a variant's own folder has."""
    folders = {each.name: each.folder for each in rehearsed.run.config.variants}
    return read_ledger(rehearsed.outcome.run_dir / "variants" / folders[variant] / "ledger.jsonl")
