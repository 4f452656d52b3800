"""The experiments that are here: each is valid, says its own name, and can be tried small first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from experiment import Experiment, load
from experiment.loader import parse
from experiment.notes import notes
from experiment.runtimes import RUNTIMES, Mode
from experiment.smoke import smoke
from tests.experiment.files import EXPERIMENTS
from tests.matrix import MATRIX

FILES = sorted(EXPERIMENTS.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_valid_and_named_after_its_file(file: Path) -> None:
    assert load(file).name == file.stem
    schema = json.loads((EXPERIMENTS / "experiment.schema.json").read_text(encoding="utf-8"))
    data = YAML(typ="safe", pure=True).load(file)
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(data, default=str)))


@pytest.mark.parametrize("name", ["article", "real-prompts"])
def test_it_can_be_tried_small_first(name: str) -> None:
    little = parse(smoke(load(EXPERIMENTS / f"{name}.yaml"), "mine.yaml"), "smoke.yaml")
    assert len(little.benchmark.points) == 1
    assert not little.calls_tools


def test_real_prompts_are_all_sent_at_every_load_point() -> None:
    experiment = load(EXPERIMENTS / "real-prompts.yaml")
    assert [note for note in notes(experiment) if "prompts" in note] == []
    sent = {
        p.name: p.requests * experiment.benchmark.rounds.at_most
        for p in experiment.benchmark.points
    }
    assert sent == dict.fromkeys(sent, 48)
    assert [case.limit for case in experiment.benchmark.test_cases] == [48, 48, 48]


def test_the_matrix_has_every_mode_and_every_runtime(
    variation: Callable[[dict[str, Any]], Experiment],
) -> None:
    experiments = [variation(changes) for changes in MATRIX.values()]
    assert {its.mode for made in experiments for its in made.speculations} == set(Mode)
    assert {made.runtime for made in experiments} == set(RUNTIMES)
