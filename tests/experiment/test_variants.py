"""An experiment has any number of variants, each compared with the baseline of its batch."""

from __future__ import annotations

from typing import Any

import pytest

from experiment import Experiment, ExperimentError
from experiment.loader import parse
from experiment.variants import Variant, variants
from tests.experiment.files import ABSENT, edited, edited_data, line_of_error, lines_of

FEWER_DEVICES = {"serving.devices": 4, "serving.tensor_parallel": 16}
"""Four services on one node."""


def speculation(name: str, **changes: Any) -> dict[str, Any]:
    """An item of the list ``speculation``: the article's, under another name."""
    return {"name": name, "mode": "fused", "num_speculative_tokens": 7} | changes


SMALL_DRAFT = {"id": "Qwen/Qwen3-0.6B", "revision": "1" * 40}


def windows(count: int) -> list[dict[str, Any]]:
    """Items that differ in their windows, from 2 on."""
    return [speculation(f"k{k}", num_speculative_tokens=k) for k in range(2, count + 2)]


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


def test_no_common_draft_is_needed_where_each_has_its_own() -> None:
    own = {"id": "Qwen/Qwen3-0.6B", "revision": "c1899de289a04d12100db370d81485cdf75e47ca"}
    experiment = listed(speculation("SD", draft=own), **{"models.draft": ABSENT})
    assert variants(experiment)[1].draft == experiment.speculations[0].draft


def test_all_take_the_same_requests_whatever_their_windows() -> None:
    windows = (3, 12, 7)
    experiment = listed(*(speculation(f"k{k}", num_speculative_tokens=k) for k in windows))
    assert experiment.served_length == experiment.serving.length - 12


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        pytest.param(
            {"speculation": 7},
            ["speculation = 7: must be a mapping, or a list of mappings"],
            id="neither",
        ),
        pytest.param(
            {"speculation": []}, ["speculation = []: must have at least 1 item"], id="none"
        ),
        pytest.param(
            {"speculation": [speculation("a"), speculation("b", mode="eager")]},
            [
                "speculation[1].mode = 'eager': must be 'vanilla', 'fused', 'eagle', 'eagle3', "
                "'medusa' or 'dflash'"
            ],
            id="type in a list",
        ),
        pytest.param(
            {"speculation": [speculation("a"), speculation("b", mode="dflash")]},
            [
                "speculation[1].mode = 'dflash': runtime vllm-0.9.1-nxdi serves fused, eagle, "
                "vanilla, medusa; dflash is served by vllm-neuron-1.x (llama, qwen3)"
            ],
            id="rule in a list",
        ),
        pytest.param(
            {"speculation": [speculation("a"), speculation("b", num_speculative_tokens=1)]},
            [
                "speculation[1].num_speculative_tokens = 1: must be at least 2: NxDI verifies a "
                "window of k positions with k - 1 draft tokens"
            ],
            id="window",
        ),
        pytest.param(
            {"speculation": [speculation("k7"), speculation("K7")]},
            [
                "speculation[0].name = 'k7': is duplicated; must be unique, ignoring case",
                "speculation[1].name = 'K7': is duplicated; must be unique, ignoring case",
            ],
            id="names equal in lower case",
        ),
        pytest.param(
            {"speculation": [speculation("base"), speculation("BASE-batch-8", batch=8)]},
            [
                "speculation[0].name = 'base': is reserved for a baseline",
                "speculation[1].name = 'BASE-batch-8': is reserved for a baseline",
            ],
            id="names of baselines",
        ),
        pytest.param(
            {"speculation.name": "k_7"},
            [
                "speculation.name = 'k_7': must be 1 to 20 of A-Z, a-z, 0-9 and -, with no - "
                "at either end"
            ],
            id="name",
        ),
        pytest.param(
            {"speculation": [speculation("a"), speculation("b", batch=2)]},
            [
                "benchmark.concurrency = 4: must be at most 2, the batch of b: more would "
                "measure the queue"
            ],
            id="concurrency",
        ),
        pytest.param(
            {"speculation": [speculation("a"), speculation("b")]},
            [
                "speculation[1].name = 'b': has the mode, window, draft and batch of a; must "
                "differ in one of them"
            ],
            id="two alike",
        ),
        pytest.param(
            {"models.draft": ABSENT},
            ["models.draft = null: is required: mode fused needs a draft of kind causal-lm"],
            id="no draft",
        ),
        pytest.param(
            {"speculation.draft": {"id": "Qwen/Qwen3-32B", "revision": "1" * 40}},
            [
                "speculation.draft = 'Qwen/Qwen3-32B': has 61.0 GiB of weights; must be smaller "
                "than the target's 61.0 GiB"
            ],
            id="draft of its own",
        ),
        pytest.param(
            {"speculation": [speculation("a"), speculation("b", batch=256)]}
            | {"serving.length": 2048},
            [
                "speculation[1].batch = 256: 256 sequences of 2048 tokens need a KV cache of 368 "
                "GiB; with 64.8 GiB of weights that exceeds 80% of the 384 GiB of device memory; "
                "use a smaller batch or length"
            ],
            id="memory",
        ),
        pytest.param(
            {"serving.length": 2048, "benchmark.mean_output_tokens": 1974}
            | {"speculation": [speculation("a"), speculation("b", num_speculative_tokens=6)]},
            [
                "benchmark.mean_output_tokens = 1974: input, output and three standard deviations "
                "add up to 2038 tokens; the limit is 2034: serving.length 2048 minus two windows "
                "of 7"
            ],
            id="load, by the largest window",
        ),
        pytest.param(
            {"speculation": windows(4)},
            [
                "serving.devices = 4: 5 claims of 4 devices need more than 1 x trn2.48xlarge with "
                "16 devices; use fewer devices or more capacity.nodes"
            ],
            id="more claims than devices",
        ),
        pytest.param(
            {"speculation": windows(4), "capacity.nodes": 3},
            [
                "capacity.nodes = 3: must be 2, which is enough for 5 claims of 4 devices; every "
                "node is billed"
            ],
            id="more nodes than claims need",
        ),
        pytest.param(
            {
                "capacity.nodes": 4,
                "speculation": [*windows(14), speculation("small", draft=SMALL_DRAFT)],
            },
            [
                "benchmark.test_cases = 10: 16 variants x 10 test cases are 160 cells; must be at "
                "most 150, or the dashboards outgrow a CloudFormation template"
            ],
            id="more cells than the dashboards take",
        ),
    ],
)
def test_what_is_refused(changes: dict[str, Any], lines: list[str]) -> None:
    changes = FEWER_DEVICES | changes
    places = lines_of(edited_data(changes))
    with pytest.raises(ExperimentError) as refused:
        parse(edited(changes), "mine.yaml")
    assert str(refused.value).splitlines() == [
        f"mine.yaml:{line_of_error(places, line)}: {line}" for line in lines
    ]
