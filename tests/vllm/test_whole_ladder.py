"""A ladder and a rate through a whole rehearsal, with golden endpoints: dashboards and all.

It stands in this tier for the time it takes: a minute and a half.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiment import load
from experiment.variants import variants
from rehearsal.golden.performance import OF_STRUCTURE, decoding
from rehearsal.golden.schedule import crossover
from spectap.config import Structure
from tests.vllm.conftest import rehearse

FILE: Final = Path(__file__).with_name("ladder.yaml")


def test_the_crossover_of_the_arithmetic_is_reported() -> None:
    rehearsed = rehearse(FILE, vllm=False)
    experiment = load(FILE)
    base, speculative = variants(experiment)
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    for structure in Structure:
        (case,) = rehearsed.cases(structure)
        (ladder,) = case.ladders
        assert [point.name for point in case.loads if point] == [
            *("concurrency-1", "concurrency-2", "concurrency-8", "concurrency-12"),
            "rate-4",
        ]
        assert ladder.sentence.split(",")[0] in page
        true = crossover(decoding(base), decoding(speculative), OF_STRUCTURE[structure], base.batch)
        found = ladder.speed
        assert found.better_up_to is not None, ladder.sentence
        if structure is Structure.STRUCTURED:
            assert true is None
            assert found.worse_from is None, ladder.sentence
        else:
            assert true is not None
            assert found.worse_from is not None, ladder.sentence
            assert found.better_up_to <= true <= found.worse_from
