"""A sweep makes a variant of each combination, and each has a name of its own."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiment import Experiment
from experiment.known_models import Model
from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Mode
from experiment.speculation import Sweep
from experiment.variants import service, variants
from tests.experiment.files import ABSENT, SMALL_DRAFT, edited, swept

LARGE_DRAFT: dict[str, Any] = {
    "id": "Qwen/Qwen3-1.7B",
    "revision": "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
}


def sweep(changes: dict[str, Any] | None = None, **its: Any) -> Experiment:
    return parse(edited(swept(**its) | (changes or {})), "mine.yaml")


def names(experiment: Experiment) -> list[str]:
    return [variant.name for variant in variants(experiment)]


def test_each_window_is_a_variant_beside_the_baseline() -> None:
    found = variants(sweep(windows=[3, 7]))
    assert [(v.name, v.baseline, v.window) for v in found] == [
        ("Base", None, None),
        ("k3", "Base", 3),
        ("k7", "Base", 7),
    ]
    assert {v.draft.id for v in found if v.draft} == {"Qwen/Qwen3-1.7B"}


def test_drafts_need_no_common_one() -> None:
    drafts = [SMALL_DRAFT, LARGE_DRAFT]
    found = variants(sweep({"models.draft": ABSENT}, drafts=drafts, windows=[3, 7]))
    assert [(v.name, v.draft.id if v.draft else None) for v in found] == [
        ("Base", None),
        ("Qwen3-0-6B-k3", "Qwen/Qwen3-0.6B"),
        ("Qwen3-0-6B-k7", "Qwen/Qwen3-0.6B"),
        ("Qwen3-1-7B-k3", "Qwen/Qwen3-1.7B"),
        ("Qwen3-1-7B-k7", "Qwen/Qwen3-1.7B"),
    ]


def test_each_batch_has_a_baseline_of_its_own() -> None:
    found = variants(sweep(windows=[3, 7], batches=[8, 16]))
    assert [(v.name, v.baseline, v.batch) for v in found] == [
        ("Base-batch-8", None, 8),
        ("k3-b8", "Base-batch-8", 8),
        ("k7-b8", "Base-batch-8", 8),
        ("Base-batch-16", None, 16),
        ("k3-b16", "Base-batch-16", 16),
        ("k7-b16", "Base-batch-16", 16),
    ]


def test_a_swept_variant_is_the_one_that_a_list_would_have() -> None:
    """It can be served from the artifact that the sweep compiled."""
    (_, listed), (_, its) = variants(parse(edited({}), "mine.yaml")), variants(sweep(windows=[7]))
    assert its.artifact == listed.artifact


def test_two_of_one_name_are_numbered() -> None:
    forks = [SMALL_DRAFT, SMALL_DRAFT | {"revision": "1" * 40}]
    assert names(sweep(drafts=forks, windows=[7])) == ["Base", "draft-1-k7", "draft-2-k7"]


models = st.builds(
    lambda owner, name, revision: Model(id=f"{owner}/{name}", revision=revision * 40),
    owner=st.sampled_from(["Qwen", "qwen", "me"]),
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", fullmatch=True)
    | st.sampled_from(["Qwen3-1.7B", "Qwen3-1_7B", "Base", "base-batch"]),
    revision=st.sampled_from("0123456789abcdef"),
)


@settings(deadline=None)
@given(
    drafts=st.none() | st.lists(models, min_size=1, max_size=4, unique=True),
    windows=st.lists(st.integers(1, 15), min_size=1, max_size=4, unique=True),
    batches=st.none() | st.lists(st.integers(1, 256), min_size=1, max_size=3, unique=True),
)
def test_names_fit_and_are_distinct_whatever_the_case(
    drafts: list[Model] | None, windows: list[int], batches: list[int] | None
) -> None:
    its = Sweep(
        mode=Mode.FUSED,
        drafts=tuple(drafts) if drafts else None,
        windows=tuple(windows),
        batches=tuple(batches) if batches else None,
        at_most_usd=1,
    )
    found = [speculation for speculation, _ in its.placed]
    assert len(found) == len(drafts or "1") * len(windows) * len(batches or "1")
    for one, other in combinations(found, 2):
        assert one.name.lower() != other.name.lower()
    for speculation in found:
        assert not re.match(r"base(-batch-\d+)?$", speculation.name, re.IGNORECASE)
        # A Service's name is a DNS label.
        assert re.fullmatch(
            r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", service("qwen", speculation.name)
        )


@pytest.mark.parametrize(
    ("runtime", "mode", "drafts"),
    [
        # NxDI verifies one draft less than the window.
        ("vllm-0.9.1-nxdi", "fused", (1, 6, 14)),
        ("vllm-0.9.1-nxdi", "eagle", (1, 6, 14)),
        ("vllm-0.9.1-nxdi", "vanilla", (1, 6, 14)),
        ("vllm-0.16-nxdi", "eagle", (1, 6, 14)),
        ("vllm-0.16-nxdi", "eagle3", (1, 6, 14)),
        # One for each head; and vLLM verifies all of them.
        ("vllm-0.9.1-nxdi", "medusa", (2, 7, 15)),
        ("vllm-neuron-1.x", "eagle3", (2, 7, 15)),
        ("vllm-neuron-1.x", "dflash", (2, 7, 15)),
    ],
)
def test_what_a_window_drafts(runtime: str, mode: Mode, drafts: tuple[int, ...]) -> None:
    support = RUNTIMES[runtime].modes[mode]
    assert tuple(support.drafts_per_step(window) for window in (2, 7, 15)) == drafts
