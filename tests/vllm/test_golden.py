"""A whole rehearsal with golden endpoints: two windows, over a ladder with a rate.

It stands in this tier for the time that it takes: a minute.
"""

from pathlib import Path
from typing import Final

import pytest

from experiment import load
from experiment.variants import variants
from rehearsal.endpoints import OF_STRUCTURE, decoding
from spectap.inputs.config import Structure
from spectap.report.phrases import crossovers
from tests.vllm.conftest import rehearse

LADDER: Final = Path(__file__).with_name("ladder.yaml")


def test_the_gains_and_crossovers_of_the_arithmetic_are_reported() -> None:
    rehearsed, experiment = rehearse(LADDER, vllm=False), load(LADDER)
    _, *windows = variants(experiment)
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    for case in rehearsed.run.summary.cases:
        loads = [point for point in case.loads if point]
        assert [point.name for point in loads] == ["concurrency-1", "concurrency-12", "rate-4"]
        acceptance = OF_STRUCTURE[Structure(case.structure)]
        for variant, ladder in zip(windows, case.ladders, strict=True):
            schedule = decoding(variant)
            for point in loads[:2]:
                comparison = case.cell(variant.name, point).comparison
                assert comparison is not None
                measured = comparison.by_time_per_output_token
                assert measured is not None
                assert point.concurrency is not None
                expected = schedule.gain(acceptance, point.concurrency)
                assert measured.point == pytest.approx(expected, rel=0.15), (case.name, variant)
            assert crossovers(case, ladder, rehearsed.run.summary).split(",")[0] in page
            assert ladder.speed.better_up_to is not None, ladder
            gain = schedule.gain(acceptance, 12)
            if abs(gain - 1) > 0.1:
                assert (ladder.speed.worse_from is not None) == (gain < 1), ladder
