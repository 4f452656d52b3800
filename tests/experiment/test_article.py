"""The default experiment is the article's."""

from __future__ import annotations

from charts.llmperf import benchmark_config
from experiment import Experiment, load
from experiment.loader import parse
from spectap.config import Structure
from spectap.load_points import MINIMUM_INPUT_TOKENS
from tests.experiment.files import EXPERIMENTS, edited

FILES = sorted(EXPERIMENTS.glob("*.yaml"))


def test_experiment_names_are_unique() -> None:
    # What make smoke wrote has the name of the experiment it is for.
    names = [load(file).name for file in FILES if not file.stem.endswith("-smoke")]
    assert len(set(names)) == len(names), names


def test_the_load_is_the_samples(article: Experiment) -> None:
    load = article.benchmark
    assert (load.mean_input_tokens, load.stddev_input_tokens) == (64, 0)
    assert (load.mean_output_tokens, load.stddev_output_tokens) == (600, 0)
    assert (load.concurrency, load.timeout_seconds) == (4, 1200)
    # Three times the sample's eight requests, in shorter rounds.
    assert load.points[0].requests * load.rounds.at_most == 3 * 8
    assert load.temperature == 0.0


def test_the_headlines_are_the_articles_two_prompts(article: Experiment) -> None:
    headlines = [(c.line, c.structure) for c in article.benchmark.test_cases if c.headline]
    assert headlines == [
        ("Repeat the following line exactly 50 times", Structure.STRUCTURED),
        ("I believe the meaning of life is", Structure.OPEN_ENDED),
    ]


def test_the_other_cases_are_the_samples_eight(article: Experiment) -> None:
    lines = [c.line and c.line.strip() for c in article.benchmark.test_cases if not c.headline]
    assert lines == [
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
