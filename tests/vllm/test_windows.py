"""A sweep over lines and a prompt set on real vLLM: what each class accepts, and the table of the
windows.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from spectap import metrics
from tests.vllm.conftest import Rehearsed, rehearse

FILE: Final = Path(__file__).with_name("windows.yaml")


@pytest.fixture(scope="module")
def swept() -> Rehearsed:
    return rehearse(FILE)


def test_each_variant_answers_every_prompt(swept: Rehearsed) -> None:
    assert swept.run.summary.complete
    assert [variant.name for variant in swept.run.config.variants] == ["Base", "k3", "k7"]
    assert all(record.succeeded for record in swept.run.records)
    assert "indexes at once: 1 in place of 2" in swept.stand_ins
    for variant in swept.run.config.variants:
        prompts = {
            (record.prompt, record.prompt_class)
            for record in swept.run.records
            if record.variant == variant.name and record.prompt
        }
        classes = Counter(prompt_class for _, prompt_class in prompts)
        assert classes == {"coding": 3, "writing": 3}


def test_drafts_of_structured_text_and_code_are_accepted(swept: Rehearsed) -> None:
    tables = swept.run.summary.windows
    assert {table.prompts for table in tables} == {"structured", "open-ended", "mt-bench"}
    tokens_per_step = {
        (table.prompts, window.window): window.tokens_per_step or 0
        for table in tables
        for window in table.measured
    }
    # More than 90 % of drafts at each position: 1 + 0.9 + ... + 0.9 ** 7.
    assert tokens_per_step["structured", 7] > 5.6
    # At most 70 %.
    assert tokens_per_step["open-ended", 3] < 2.6
    steps: dict[str, list[float]] = {"coding": [], "writing": []}
    for record in swept.run.records:
        tokens = metrics.tokens_per_step(record)
        if record.variant == "k7" and record.prompt and tokens is not None:
            steps[record.prompt_class].append(tokens)
    assert min(steps["coding"]) > 4
    assert min(steps["writing"]) > 1
    assert max(steps["writing"]) < 4
