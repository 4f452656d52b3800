"""What speculation gains on real vLLM, and how well two windows foretell a third.

``python -m tests.vllm.bench`` rehearses the article's experiment and a sweep on the CPU, which
takes some ten minutes, and returns 1 where a bar is missed. Its figures are of a quiet machine:
variants take turns on one core, and those of a sweep are measured minutes apart.
"""

import math
import sys
from collections.abc import Iterator

from spectap.analysis.advice.advise import advise
from spectap.analysis.estimates.intervals import Interval, bounds, times
from spectap.analysis.evidence import unsteadiness_of
from spectap.config import Structure
from tests.vllm import test_windows
from tests.vllm.conftest import EXPERIMENT, Rehearsed, rehearse
from tests.vllm.gains import OPEN_ENDED, PREDICTED, PREFILL, STRUCTURED, prefill, speedup

Row = tuple[str, Interval, float, float]
"""The name of a figure, the figure, and between which two it should be."""


def main() -> int:
    """Prints the table; returns 1 where a bar is missed."""
    result, swept = rehearse(EXPERIMENT), rehearse(test_windows.FILE)
    missed = []
    print(f"{'':<34}{'':>8}{'95 %':>14}   bar")
    for name, figure, low, high in (*_gains(result), *_foretold(swept)):
        bar = f"{low:.2f} or more" if high == math.inf else f"{low:.2f} to {high:.2f}"
        print(f"{name:<34}{times(figure):>8}{bounds(figure):>14}   {bar}")
        # The figure itself has to be there, not only its interval.
        if not low <= figure.point <= high:
            missed.append(f"{name}: {times(figure)}, {bar}")
    if (controls := unsteadiness_of(swept.run.ledger)) is not None:
        print(f"the controls of the sweep changed by {controls.change:.0%}")
    print("".join(f"\nmissed: {line}" for line in missed) or "\nevery bar is met")
    return int(bool(missed))


def _gains(result: Rehearsed) -> Iterator[Row]:
    for case in result.run.summary.cases:
        bar = OPEN_ENDED
        if case.structure == Structure.STRUCTURED.value:
            bar = STRUCTURED, math.inf
        yield f"{case.name}, SD", speedup(case), *bar
        yield f"{case.name}, TTFT", prefill(case, "SD"), *PREFILL


def _foretold(swept: Rehearsed) -> Iterator[Row]:
    """Each window's measured speed-up against what the others predict."""
    for prospect in advise(swept.run.config, swept.run.ledger).prospects:
        foretold, measured = prospect.predicted, prospect.measured
        if foretold is not None and measured is not None:
            low, high = foretold.point / (1 + PREDICTED), foretold.point / (1 - PREDICTED)
            yield f"{prospect.prompt_class}, window {prospect.window}", measured, low, high


if __name__ == "__main__":
    sys.exit(main())
