"""The experiments that are here: each is valid, and the default is the article's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from experiment import Experiment, load
from experiment.runtimes import RUNTIMES, Mode
from tests.experiment.files import EXPERIMENTS
from tests.matrix import MATRIX


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda file: file.stem)
def test_it_is_valid_and_named_after_its_file(file: Path) -> None:
    assert load(file).name == file.stem
    schema = json.loads((EXPERIMENTS / "experiment.schema.json").read_text(encoding="utf-8"))
    data = YAML(typ="safe", pure=True).load(file)
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(data, default=str)))


def test_real_prompts_are_all_sent_at_every_load_point() -> None:
    experiment = load(EXPERIMENTS / "real-prompts.yaml")
    rounds = experiment.benchmark.rounds.at_most
    assert {point.requests * rounds for point in experiment.benchmark.points} == {48}
    assert [case.limit for case in experiment.benchmark.test_cases] == [48, 48, 48]


def test_the_matrix_has_every_mode_and_every_runtime(
    variation: Callable[[dict[str, Any]], Experiment],
) -> None:
    experiments = [variation(changes) for changes in MATRIX.values()]
    assert {s.mode for experiment in experiments for s in experiment.speculations} == set(Mode)
    assert {experiment.runtime for experiment in experiments} == set(RUNTIMES)
