"""Whole rehearsals with golden endpoints: three variants, and a ladder with a rate.

They stand in this tier for the time they take: a minute and a half each.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from experiment import load
from experiment.variants import variants
from rehearsal.golden.performance import OF_STRUCTURE, decoding, draft_of
from spectap.config import Structure
from tests.synthesis import ROOT
from tests.vllm.conftest import rehearse

THREE_VARIANTS: Final = ROOT / "experiments" / "two-windows.yaml"
LADDER: Final = Path(__file__).with_name("ladder.yaml")


def test_each_variant_has_a_row_in_every_case_held_against_the_baseline() -> None:
    rehearsed, experiment = rehearse(THREE_VARIANTS, vllm=False), load(THREE_VARIANTS)
    base, *windows = variants(experiment)
    concurrency = experiment.benchmark.points[0].concurrency
    assert concurrency is not None
    cases = rehearsed.run.summary.cases
    for case, test_case in zip(cases, experiment.benchmark.test_cases, strict=True):
        assert test_case.structure is not None
        assert [cell.variant for cell in case.cells] == ["Base", "k3", "k7"]
        for (_, comparison), variant in zip(case.compared, windows, strict=True):
            assert comparison.baseline == base.name
            measured = comparison.by_time_per_output_token
            assert measured is not None
            acceptance = draft_of(variant).acceptance(OF_STRUCTURE[test_case.structure])
            expected = decoding(variant).gain(acceptance, concurrency)
            assert measured.point == pytest.approx(expected, rel=0.15), case.name
    tables, _, _ = rehearsed.output.partition("By class of test case")
    rows = re.findall(r"^\S* +(Base|k3|k7)  ", tables, re.MULTILINE)
    # A table that does not fit goes on below.
    assert rows
    assert len(rows) % (3 * len(cases)) == 0


def test_the_crossover_of_the_arithmetic_is_reported() -> None:
    rehearsed, experiment = rehearse(LADDER, vllm=False), load(LADDER)
    _, speculative = variants(experiment)
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    for structure in Structure:
        (case,) = rehearsed.cases(structure)
        (ladder,) = case.ladders
        assert [point.name for point in case.loads if point] == [
            *("concurrency-1", "concurrency-2", "concurrency-8", "concurrency-12"),
            "rate-4",
        ]
        assert ladder.sentence.split(",")[0] in page
        speed, acceptance = ladder.speed, OF_STRUCTURE[structure]
        assert speed.better_up_to is not None, ladder.sentence
        assert decoding(speculative).gain(acceptance, speed.better_up_to) > 1
        if structure is Structure.STRUCTURED:
            assert decoding(speculative).gain(acceptance, speculative.batch) > 1
            assert speed.worse_from is None, ladder.sentence
        else:
            assert speed.worse_from is not None, ladder.sentence
            assert decoding(speculative).gain(acceptance, speed.worse_from) < 1
