"""The default experiment is the article's."""

from __future__ import annotations

from pathlib import Path

import pytest

from charts.llmperf import benchmark_config
from experiment import Experiment, load
from experiment.loader import parse
from experiment.runtimes import Mode
from experiment.schema import Purchase
from spectap.config import Structure
from spectap.load_points import MINIMUM_INPUT_TOKENS
from tests.experiment.files import EXPERIMENTS, edited

FILES = sorted(EXPERIMENTS.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_experiment_file_loads(file: Path) -> None:
    load(file)


def test_experiment_names_are_unique() -> None:
    # What make smoke wrote has the name of the experiment it is for.
    names = [load(file).name for file in FILES if not file.stem.endswith("-smoke")]
    assert len(set(names)) == len(names), names


def test_the_pair_is_qwen3_32b_and_1_7b(article: Experiment) -> None:
    assert article.models.target.id == "Qwen/Qwen3-32B"
    assert article.models.draft
    assert article.models.draft.id == "Qwen/Qwen3-1.7B"


def test_speculation_is_fused_with_seven_tokens(article: Experiment) -> None:
    (speculation,) = article.speculations
    assert speculation.mode is Mode.FUSED
    assert speculation.num_speculative_tokens == 7


def test_the_runtime_is_the_one_that_serves_fused(article: Experiment) -> None:
    assert article.runtime == "vllm-0.9.1-nxdi"


def test_each_service_has_half_a_node(article: Experiment) -> None:
    assert article.serving.model_dump() == {
        "devices": 8,
        "logical_core_size": 2,
        "tensor_parallel": 32,
        "batch": 4,
        "length": 1024,
        "api_key": False,
    }


def test_one_trn2_48xlarge_in_us_east_2(article: Experiment) -> None:
    assert article.capacity.instance_type == "trn2.48xlarge"
    assert article.capacity.nodes == 1
    assert article.aws.region == "us-east-2"


def test_nothing_is_bought_beforehand_or_opened_by_default(article: Experiment) -> None:
    assert article.capacity.purchase is Purchase.ON_DEMAND
    assert article.capacity.reservation_id is None
    assert article.aws.api_access == ()
    assert article.alerts.emails == ()


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


def test_quality_asks_as_many_questions_as_the_sample(article: Experiment) -> None:
    assert article.quality is not None
    assert article.quality.limit == 50


def test_both_revisions_are_commits(article: Experiment) -> None:
    for model in (article.models.target, article.models.draft):
        assert model
        assert len(bytes.fromhex(model.revision)) == 20


def test_a_prompt_of_llmperfs_own_minimum_is_long_enough() -> None:
    shortest = parse(edited({"benchmark.mean_input_tokens": MINIMUM_INPUT_TOKENS}), "mine.yaml")
    assert benchmark_config(shortest, "bucket").load.mean_input_tokens == MINIMUM_INPUT_TOKENS


def test_an_experiment_cannot_be_changed(article: Experiment) -> None:
    with pytest.raises(ValueError, match="frozen"):
        article.serving.batch = 8  # type: ignore[misc]  # mypy says so, too
