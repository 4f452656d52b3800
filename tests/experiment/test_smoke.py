"""The small experiment tries out what the large one rests on, and nothing that takes hours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from experiment import Experiment, ExperimentError, load
from experiment.loader import parse
from experiment.smoke import smoke
from experiment.variants import variants
from tests.experiment.files import ABSENT, EXPERIMENTS, SMALL_DRAFT, edited, swept


def small(changes: dict[str, Any]) -> tuple[Experiment, Experiment]:
    """An experiment and its small one."""
    large = parse(edited(changes), "mine.yaml")
    return large, parse(smoke(large, "mine.yaml"), "mine-smoke.yaml")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"speculation.num_speculative_tokens": 15, "serving.batch": 16},
        {
            "speculation": [
                {"name": "k3", "mode": "fused", "num_speculative_tokens": 3},
                {"name": "k7", "mode": "fused", "num_speculative_tokens": 7, "batch": 8},
            ],
            "serving.devices": 4,
            "serving.tensor_parallel": 16,
        },
        {"serving.batch": 64, "benchmark.concurrency": 64, "benchmark.requests": 64},
    ],
)
def test_it_has_the_same_stacks_node_claims_and_mode(changes: dict[str, Any]) -> None:
    large, little = small(changes)
    assert little.name == large.name
    for part in ("aws", "capacity", "runtime", "speculation", "alerts"):
        assert getattr(little, part) == getattr(large, part)
    unchanged = large.serving.model_copy(update={"length": little.serving.length})
    assert little.serving == unchanged
    assert little.benchmark.concurrency == large.benchmark.concurrency


@pytest.mark.parametrize(
    ("changes", "nodes", "names"),
    [
        (swept(), 1, ["Base", "k15"]),
        (swept(drafts=[SMALL_DRAFT], mode="fused") | {"capacity.nodes": 4}, 2, ["Base", "k15"]),
        (
            swept(batches=[4, 8]) | {"capacity.nodes": 3},
            3,
            ["Base", "k15-b4", "Base-batch-8", "k15-b8"],
        ),
    ],
)
def test_of_a_sweep_it_tries_the_widest_window(
    changes: dict[str, Any], nodes: int, names: list[str]
) -> None:
    large, little = small(changes)
    assert [variant.name for variant in variants(little)] == names
    assert little.capacity == large.capacity.model_copy(update={"nodes": nodes})
    assert little.name == large.name
    assert {v.draft.id for v in variants(little) if v.draft} == {"Qwen/Qwen3-0.6B"}


def test_of_a_ladder_it_tries_one_load_point() -> None:
    points = [{"concurrency": 2}, {"concurrency": 32}, {"rate": 0.5, "seconds": 60}]
    sets = [{"name": "tools", "set": "bfcl"}]
    _, little = small(
        {"benchmark.concurrency": ABSENT, "benchmark.load": points, "benchmark.test_cases": sets}
    )
    assert [(point.concurrency, point.requests) for point in little.benchmark.points] == [(2, 8)]
    assert all(case.is_line for case in little.benchmark.test_cases)


@pytest.mark.parametrize("name", ["vanilla", "medusa"])
def test_jobs_are_tried_out_with_a_vanilla_draft(name: str) -> None:
    large = load(EXPERIMENTS / f"{name}.yaml")
    little = parse(smoke(large, "mine.yaml"), "mine-smoke.yaml")
    assert little.speculations[0].mode == "vanilla"
    assert little.workload == large.workload
    assert little.serving.batch == 1
    assert little.quality is None


def test_the_window_of_one_head_is_one_that_a_draft_model_can_have() -> None:
    data = YAML(typ="safe", pure=True).load(EXPERIMENTS / "medusa.yaml")
    data["speculation"]["num_speculative_tokens"] = 1
    large = parse(json.dumps(data, default=str), "mine.yaml")
    assert parse(smoke(large, "mine.yaml"), "mine-smoke.yaml").largest_window == 2


@pytest.mark.parametrize("name", ["eagle3-nxdi", "dflash"])
def test_a_runtime_without_a_small_pair_is_refused_in_one_line(name: str) -> None:
    large = load(EXPERIMENTS / f"{name}.yaml")
    with pytest.raises(ExperimentError) as refused:
        smoke(large, "mine.yaml")
    assert str(refused.value).startswith(f'mine.yaml: runtime = "{large.runtime}": ')
    assert "vllm-0.9.1-nxdi" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("medusa", "# Not tried: mode medusa, and what prepares it; in its place is vanilla."),
        ("eagle", "# Not tried: mode eagle, and what prepares it; in its place is fused."),
        ("vanilla", None),
        ("article", None),
    ],
)
def test_its_head_says_which_mode_is_not_tried(name: str, said: str | None) -> None:
    text = smoke(load(EXPERIMENTS / f"{name}.yaml"), "mine.yaml")
    assert [line for line in text.splitlines() if "Not tried" in line] == ([said] if said else [])
