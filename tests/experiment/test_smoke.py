"""The small experiment tries out what the large one rests on, and nothing that takes hours."""

from typing import Any

import pytest

from experiment import Experiment, ExperimentError
from experiment.cost import cost
from experiment.loader import parse
from experiment.smoke import REGION, smoke_experiment
from experiment.variants import variants
from tests.experiment.files import ABSENT, SMALL_DRAFT, edited, of_file, swept

SAO_PAULO = {
    "aws.region": "sa-east-1",
    "aws.availability_zones": ["sa-east-1a", "sa-east-1c"],
    "capacity.availability_zone": "sa-east-1c",
}


def small(changes: dict[str, Any]) -> tuple[Experiment, Experiment, str]:
    large = parse(edited(changes), "mine.yaml")
    text = smoke_experiment(large, "mine.yaml")
    return large, parse(text, "mine-smoke.yaml"), text


def test_each_variant_has_a_device_of_its_own_where_one_is_sold() -> None:
    two = [
        {"name": "k3", "mode": "fused", "num_speculative_tokens": 3, "batch": 8},
        {"name": "k7", "mode": "fused", "num_speculative_tokens": 7},
    ]
    changes = {"speculation": two, "aws.api_access": ["203.0.113.0/24"]}
    claims = {"serving.devices": 4, "serving.tensor_parallel": 16}
    large, little, text = small(changes | claims)
    for field in ("runtime", "alerts"):
        assert getattr(little, field) == getattr(large, field)
    assert little.name == "article-smoke"
    assert [v.name for v in variants(little)] == ["Base", "k3"]
    assert (little.capacity.nodes, little.capacity.instance.devices) == (2, 1)
    assert (little.serving.devices, little.serving.tensor_parallel) == (1, 4)
    assert (little.aws.region, little.aws.api_access) == (REGION, large.aws.api_access)
    assert little.benchmark.concurrency == large.benchmark.concurrency
    assert cost(little).usd < 7
    assert "Not tried: mode" not in text
    # It stays where such nodes are sold, and in the network that is there.
    _, little, _ = small(SAO_PAULO)
    assert (little.aws.region, little.capacity.availability_zone) == ("sa-east-1", "sa-east-1c")


def test_of_a_sweep_it_tries_the_widest_window_at_each_batch() -> None:
    _, little, _ = small(swept(drafts=[SMALL_DRAFT]) | {"capacity.nodes": 4})
    assert [variant.name for variant in variants(little)] == ["Base", "k15"]
    assert little.capacity.nodes == 2
    assert {v.draft.id for v in variants(little) if v.draft} == {"Qwen/Qwen3-0.6B"}
    _, little, _ = small(swept(batches=[4, 8]) | {"capacity.nodes": 3})
    names = [variant.name for variant in variants(little)]
    assert (names, little.capacity.nodes) == (["Base", "k15-b4", "Base-batch-8", "k15-b8"], 3)


def test_of_a_ladder_it_tries_one_load_point() -> None:
    points = [{"concurrency": 2}, {"concurrency": 32, "requests": 32}, {"rate": 0.5, "seconds": 60}]
    cases = [{"name": "tools", "set": "bfcl"}]
    changes = {"benchmark.load": points, "benchmark.test_cases": cases}
    _, little, _ = small(changes | {"benchmark.concurrency": ABSENT})
    assert [(point.concurrency, point.requests) for point in little.benchmark.points] == [(2, 8)]
    assert all(case.is_line for case in little.benchmark.test_cases)


@pytest.mark.parametrize(
    ("name", "mode", "untried"),
    [("vanilla", "vanilla", None), ("medusa", "vanilla", "medusa"), ("eagle", "fused", "eagle")],
)
def test_a_mode_without_a_small_head_is_tried_with_a_draft_model(
    name: str, mode: str, untried: str | None
) -> None:
    large, little, text = small(
        of_file(name) | {"speculation.num_speculative_tokens": 1 if untried == "medusa" else 2}
    )
    # A window of one head is not one that a draft model can have.
    assert (little.speculations[0].mode, little.speculations[0].num_speculative_tokens) == (mode, 2)
    assert (little.workload, little.quality is None) == (large.workload, large.quality is None)
    head = f"# Not tried: mode {untried}, and what prepares it; in its place is {mode}."
    assert (head in text) is (untried is not None)


def test_a_runtime_without_a_small_pair_is_refused_in_one_line() -> None:
    with pytest.raises(ExperimentError, match=r"^mine\.yaml: runtime = .*vllm-0\.9\.1-nxdi.*$"):
        small(of_file("dflash"))
