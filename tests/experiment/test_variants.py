"""An experiment has any number of variants, each compared with the baseline of its batch."""

from __future__ import annotations

from typing import Any

import pytest

from experiment import Experiment, ExperimentError
from experiment.loader import parse
from experiment.variants import Variant, variants
from spectap import names
from tests.experiment.files import ABSENT, edited, edited_data, line_of_error, lines_of

FEWER_DEVICES = {"serving.devices": 4, "serving.tensor_parallel": 16}
"""Four services on one node."""


def speculation(name: str, **changes: Any) -> dict[str, Any]:
    """An item of the list ``speculation``: the article's, under another name."""
    return {"name": name, "mode": "fused", "num_speculative_tokens": 7} | changes


LARGE_DRAFT = {"id": "Qwen/Qwen3-32B", "revision": "1" * 40}
A, B = "speculation[0]", "speculation[1]"
WINDOWS = [speculation(f"k{k}", num_speculative_tokens=k) for k in range(2, 6)]


def listed(*items: dict[str, Any], **changes: Any) -> Experiment:
    """The article's experiment with a list of speculations."""
    return parse(edited(FEWER_DEVICES | {"speculation": [*items]} | changes), "mine.yaml")


def shape(variant: Variant) -> tuple[str, str | None, int, int | None]:
    """Name, baseline, batch and window."""
    return (variant.name, variant.baseline, variant.batch, variant.window)


def test_the_articles_one_mapping_makes_base_and_sd(article: Experiment) -> None:
    found = variants(article)
    assert [shape(v) for v in found] == [("Base", None, 4, None), ("SD", "Base", 4, 7)]
    assert [v.service for v in found] == ["qwen-vllm", "qwen-sd-vllm"]


def test_a_list_makes_a_variant_of_each_item_in_its_order() -> None:
    found = variants(listed(speculation("k7"), speculation("K3", num_speculative_tokens=3)))
    assert [shape(v) for v in found] == [
        ("Base", None, 4, None),
        ("k7", "Base", 4, 7),
        ("K3", "Base", 4, 3),
    ]
    assert [v.service for v in found] == ["qwen-vllm", "qwen-k7-vllm", "qwen-k3-vllm"]


@pytest.mark.parametrize(
    ("target", "prefix"),
    [
        ("Qwen/Qwen3-32B", "qwen"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama"),
        ("openai/gpt-oss-120b", "gpt"),
        ("01-ai/6B-chat", "model"),
    ],
)
def test_names_follow_the_target(article: Experiment, target: str, prefix: str) -> None:
    models = article.models.model_copy(
        update={"target": article.models.target.model_copy(update={"id": target})}
    )
    experiment = article.model_copy(update={"models": models})
    assert [v.service for v in variants(experiment)] == [f"{prefix}-vllm", f"{prefix}-sd-vllm"]
    assert names.namespace(target) == f"{prefix.capitalize()}/LLMPerf"


def test_another_batch_gets_a_baseline_of_its_own() -> None:
    found = variants(listed(speculation("wide", batch=8), speculation("SD")))
    assert [shape(v) for v in found] == [
        ("Base", None, 4, None),
        ("SD", "Base", 4, 7),
        ("Base-batch-8", None, 8, None),
        ("wide", "Base-batch-8", 8, 7),
    ]
    assert len({v.artifact for v in found}) == 4


def test_the_same_decoding_under_another_name_needs_no_other_artifact(article: Experiment) -> None:
    one = {v.artifact for v in variants(article)}
    renamed = parse(edited({"speculation.name": "fused-7"}), "mine.yaml")
    assert {v.artifact for v in variants(renamed)} == one


def test_a_variant_may_have_a_draft_of_its_own() -> None:
    other = {"id": "Qwen/Qwen3-0.6B", "revision": "c1899de289a04d12100db370d81485cdf75e47ca"}
    _, usual, small = variants(listed(speculation("SD"), speculation("small", draft=other)))
    assert usual.draft
    assert small.draft
    assert (usual.draft.id, small.draft.id) == ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B")


def test_all_take_the_same_requests_whatever_their_windows() -> None:
    windows = (3, 12, 7)
    experiment = listed(*(speculation(f"k{k}", num_speculative_tokens=k) for k in windows))
    assert experiment.served_length == experiment.serving.length - 12


@pytest.mark.parametrize(
    ("changes", "field", "word"),
    [
        ({"speculation": 7}, "speculation", "mapping"),
        ({"speculation": [speculation("a"), speculation("b", mode="eager")]}, B + ".mode", "fused"),
        ({"speculation": [speculation("k7"), speculation("K7")]}, A + ".name", "duplicated"),
        ({"speculation": [speculation("base")]}, A + ".name", "reserved"),
        ({"speculation": [speculation("BASE-batch-8", batch=8)]}, A + ".name", "reserved"),
        ({"speculation": [speculation("a"), speculation("b")]}, B + ".name", "differ"),
        (
            {"speculation": [speculation("a"), speculation("b", batch=2)]},
            "benchmark.concurrency",
            "at most 2",
        ),
        ({"models.draft": ABSENT}, "models.draft", "causal-lm"),
        ({"speculation.draft": LARGE_DRAFT}, "speculation.draft", "smaller"),
        (
            {"speculation": [speculation("a"), speculation("b", batch=256)]}
            | {"serving.length": 2048},
            B + ".batch",
            "KV cache",
        ),
        (
            {"speculation": [speculation("a"), speculation("b", num_speculative_tokens=6)]}
            | {"serving.length": 2048, "benchmark.mean_output_tokens": 1974},
            "benchmark.mean_output_tokens",
            "2034",
        ),
        ({"speculation": WINDOWS}, "serving.devices", "5 claims"),
        ({"speculation": WINDOWS, "capacity.nodes": 3}, "capacity.nodes", "must be 2"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], field: str, word: str) -> None:
    changes = FEWER_DEVICES | changes
    line = line_of_error(lines_of(edited_data(changes)), field)
    with pytest.raises(ExperimentError) as refused:
        parse(edited(changes), "mine.yaml")
    first = str(refused.value).splitlines()[0]
    assert first.startswith(f"mine.yaml:{line}: {field} = ") or "models.draft" in first
    assert word in first
