"""What speculation gains on real vLLM, and how well two windows foretell a third.

``python -m tests.bench.vllm`` rehearses the article's experiment and a sweep on the CPU, which
takes some twenty minutes, and returns 1 where a bar is missed. Its figures are of a quiet machine:
variants take turns on one core, and those of a sweep are measured minutes apart.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from rehearsal.vllm import ngram
from spectap.analysis.advice.advise import advise
from spectap.analysis.controls import unsteadiness
from spectap.analysis.estimates.intervals import Interval, span, times
from spectap.config import Structure
from tests.vllm import test_windows
from tests.vllm.conftest import EXPERIMENT, Rehearsed, rehearse
from tests.vllm.gains import OPEN_ENDED, PREDICTED, PREFILL, STRUCTURED, prefill, speedup

_UNBOUNDED: Final = float("inf")


class Row(NamedTuple):
    """A figure, and between which two it should be."""

    name: str
    found: Interval
    low: float
    high: float

    @property
    def met(self) -> bool:
        """Whether the figure itself is, not only its interval."""
        return self.low <= self.found.point <= self.high

    def __str__(self) -> str:
        bar = f"{self.low:.2f} to {self.high:.2f}"
        if self.high == _UNBOUNDED:
            bar = f"{self.low:.2f} or more"
        return (
            f"{self.name:<34}{times(self.found):>8}{span(self.found):>14}   {bar:<16}"
            f"{'' if self.met else 'missed'}"
        )


def main() -> int:
    """Prints the table; returns 1 where a bar is missed."""
    result, swept = rehearse(EXPERIMENT), rehearse(test_windows.FILE)
    rows = [*_gains(result), *_foretold(swept)]
    print(f"{'':<34}{'':>8}{'95 %':>14}   bar")
    for row in rows:
        print(row)
    controls = unsteadiness(swept.run.ledger)
    if controls is not None:
        print(f"the controls of the sweep changed by {controls.change:.0%}")
    missed = sum(not row.met for row in rows)
    print(f"{missed} of {len(rows)} bars missed" if missed else "every bar is met")
    return 1 if missed else 0


def _gains(result: Rehearsed) -> Iterator[Row]:
    for case in result.run.summary.cases:
        low, high = OPEN_ENDED
        if case.structure == Structure.STRUCTURED.value:
            low, high = STRUCTURED, _UNBOUNDED
        yield Row(f"{case.name}, SD", speedup(case), low, high)
        if case.name == "repeat-line":
            yield Row(f"{case.name}, n-gram", speedup(case, ngram.NAME), STRUCTURED, _UNBOUNDED)
        for variant in ("SD", ngram.NAME):
            yield Row(f"{case.name}, TTFT of {variant}", prefill(case, variant), *PREFILL)


def _foretold(swept: Rehearsed) -> Iterator[Row]:
    """Of each window the measured speed-up, held against what the others foretell."""
    for prospect in advise(swept.run.config, swept.run.ledger).prospects:
        foretold, found = prospect.predicted, prospect.measured
        if foretold is not None and found is not None:
            low, high = foretold.point / (1 + PREDICTED), foretold.point / (1 - PREDICTED)
            yield Row(f"{prospect.prompt_class}, window {prospect.window}", found, low, high)


if __name__ == "__main__":
    sys.exit(main())
