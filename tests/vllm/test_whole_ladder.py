"""A ladder and a rate through a whole rehearsal, with golden endpoints: dashboards and all.

It stands in this tier for the time it takes: a minute and a half.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiment import load
from experiment.variants import services
from rehearsal.golden.acceptances import OF_STRUCTURE
from rehearsal.golden.endpoints import decoding
from rehearsal.golden.schedule import crossover
from tests.vllm.conftest import rehearse

FILE: Final = Path(__file__).with_name("ladder.yaml")


def test_the_crossover_of_the_arithmetic_is_reported() -> None:
    rehearsed = rehearse(FILE, vllm=False)
    experiment = load(FILE)
    base, speculative = services(experiment)
    (asked,) = experiment.benchmark.test_cases
    assert asked.structure is not None
    rate = OF_STRUCTURE[asked.structure]
    true = crossover(decoding(base), decoding(speculative), rate, base.batch)
    assert true is not None
    (case,) = rehearsed.run.summary.cases
    (ladder,) = case.ladders
    assert ladder.speed.better_up_to is not None, ladder.sentence
    assert ladder.speed.worse_from is not None, ladder.sentence
    assert ladder.speed.better_up_to <= true <= ladder.speed.worse_from
    assert [point.name for point in case.loads if point] == [
        *("concurrency-1", "concurrency-2", "concurrency-8", "concurrency-12"),
        "rate-4",
    ]
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    assert ladder.sentence.split(",")[0] in page
