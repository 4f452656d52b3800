"""What a rehearsal says of its endpoints is their arithmetic."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from experiment import Experiment, load
from experiment.variants import variants
from rehearsal.golden.acceptances import OF_STRUCTURE
from rehearsal.golden.arithmetic import COST, decoding, gain, windows
from rehearsal.golden.drafts import draft_of
from rehearsal.golden.said import said
from tests.experiment.files import EXPERIMENTS


@pytest.fixture(scope="module")
def sweep() -> Experiment:
    return load(EXPERIMENTS / "article-sweep.yaml")


def test_a_line_for_each_draft_however_many_windows(sweep: Experiment) -> None:
    _, _, *drafts = said(sweep, COST)
    assert [line.partition(",")[0] for line in drafts] == ["Qwen3-0.6B", "Qwen3-1.7B"]
    for line in drafts:
        assert len(re.findall("best ", line)) == len(OF_STRUCTURE)


def test_the_best_window_is_the_best(sweep: Experiment) -> None:
    _, _, *drafts = said(sweep, COST)
    first = {variant.draft.id: variant for variant in variants(sweep) if variant.draft}
    for line, variant in zip(drafts, first.values(), strict=True):
        assert f"a draft takes {draft_of(variant).cost:.1%} of a pass; with 4 in flight" in line
        for structure, article in OF_STRUCTURE.items():
            rate = draft_of(variant).acceptance(article)
            own = decoding(variant)
            by_window = {
                window: gain(replace(own, window=window), rate, 4) for window in windows(own)
            }
            window, speedup = max(by_window.items(), key=lambda item: item[1])
            assert (
                f"{structure} text, {rate:.1%} accepted, best {speedup:.2f}x with window {window}"
            ) in line


def test_a_single_window_is_said_with_the_load_that_ends_its_gain(article: Experiment) -> None:
    *_, line = said(article, COST)
    assert "97.0% accepted, 3.08x with window 7, best 3.47x with window 15" in line
    assert "52.0% accepted, 0.99x with window 7 (and 1x with 3.9 in flight), best 1.32x" in line


@pytest.mark.parametrize(("file", "window"), [("dflash", 9), ("medusa", 4)])
def test_no_other_window_is_said_of_a_draft_that_has_but_one(file: str, window: int) -> None:
    *_, line = said(load(EXPERIMENTS / f"{file}.yaml"), COST)
    assert f"x with window {window}" in line
    assert "best" not in line


@pytest.mark.parametrize("file", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_file_has_endpoints_whose_steps_are_its_window_s(file: Path) -> None:
    experiment = load(file)
    assert len([*said(experiment, COST)]) > 2
    for variant in variants(experiment):
        assert decoding(variant).drafts == (variant.drafts_per_step or 0)
