"""What speculation gains on real vLLM.

``python -m tests.benchmarks.vllm`` rehearses the article's experiment on the CPU, which takes some
minutes, and returns 1 where a bar is missed. Its figures are of a quiet machine: variants take
turns on one core.
"""

import math
import sys
from collections.abc import Iterator

from spectap.analysis.estimate import Interval
from spectap.inputs.config import Structure
from spectap.report import phrases
from tests.vllm.conftest import EXPERIMENT, Rehearsed, rehearse
from tests.vllm.gains import OPEN_ENDED, PREFILL, STRUCTURED, prefill, speedup

Row = tuple[str, Interval, float, float]
"""The name of a figure, the figure, and between which two it should be."""


def main() -> int:
    """Prints the table; returns 1 where a bar is missed."""
    result = rehearse(EXPERIMENT)
    missed = []
    print(f"{'':<34}{'':>8}{'95 %':>14}   bar")
    for name, figure, low, high in _gains(result):
        bar = f"{low:.2f} or more" if high == math.inf else f"{low:.2f} to {high:.2f}"
        speed = phrases.speed(figure)
        print(f"{name:<34}{speed.figure:>8}{speed.bounds:>14}   {bar}")
        # The figure itself has to be there, not only its interval.
        if not low <= figure.point <= high:
            missed.append(f"{name}: {speed.figure}, {bar}")
    print("".join(f"\nmissed: {line}" for line in missed) or "\nevery bar is met")
    return int(bool(missed))


def _gains(result: Rehearsed) -> Iterator[Row]:
    for case in result.run.summary.cases:
        bar = OPEN_ENDED
        if case.structure == Structure.STRUCTURED.value:
            bar = STRUCTURED, math.inf
        yield f"{case.name}, SD", speedup(case), *bar
        yield f"{case.name}, TTFT", prefill(case, "SD"), *PREFILL


if __name__ == "__main__":
    sys.exit(main())
