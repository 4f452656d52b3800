"""The experiments that are here: each is valid, and the default is the article's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from charts.llmperf import benchmark_config
from experiment import Experiment, load
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Mode
from spectap.config import Structure
from spectap.load_points import MINIMUM_INPUT_TOKENS
from tests.experiment.files import EXPERIMENTS, edited
from tests.matrix import MATRIX


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda file: file.stem)
def test_it_is_valid_and_named_after_its_file(file: Path) -> None:
    assert load(file).name == file.stem
    schema = json.loads((EXPERIMENTS / "experiment.schema.json").read_text(encoding="utf-8"))
    data = YAML(typ="safe", pure=True).load(file)
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(data, default=str)))


def test_the_load_is_the_samples(article: Experiment) -> None:
    load = article.benchmark
    assert (load.mean_input_tokens, load.stddev_input_tokens) == (64, 0)
    assert (load.mean_output_tokens, load.stddev_output_tokens) == (600, 0)
    assert (load.concurrency, load.timeout_seconds) == (4, 1200)
    # Three times the sample's eight requests, in shorter rounds.
    assert load.points[0].requests * load.rounds.at_most == 3 * 8
    assert load.temperature == 0.0


def test_the_cases_are_the_samples_ten(article: Experiment) -> None:
    cases = article.benchmark.test_cases
    assert [(case.line, case.structure) for case in cases if case.headline] == [
        ("Repeat the following line exactly 50 times", Structure.STRUCTURED),
        ("I believe the meaning of life is", Structure.OPEN_ENDED),
    ]
    assert [case.line and case.line.strip() for case in cases if not case.headline] == [
        "counting numbers from 1",
        None,  # llmperf's own text
        "a",
        "hello world",
        "the cat sat on the mat.",
        "Output valid JSON with fixed keys",
        "Write a simple Python function skeleton",
        "List numbers from one to twenty",
    ]


def test_a_prompt_of_llmperfs_own_minimum_is_long_enough() -> None:
    shortest = parse(edited({"benchmark.mean_input_tokens": MINIMUM_INPUT_TOKENS}), "mine.yaml")
    assert benchmark_config(shortest, "bucket").load.mean_input_tokens == MINIMUM_INPUT_TOKENS


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
