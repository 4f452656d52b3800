"""What speculation gains in a rehearsal, and the bars that the article's result sets."""

from typing import Final

from spectap.analysis.estimate import Interval
from spectap.analysis.summary import Case
from spectap.metrics import TTFT

STRUCTURED: Final = 2.5
"""At least. The article says 3x."""
OPEN_ENDED: Final = (1 / 1.4, 1 / 0.7)
"""From and to: drafts of open-ended text neither gain nor lose much."""
PREFILL: Final = (1 / 1.2, 1.2)
"""Of TTFT to that of the baseline, from and to. A draft's first passes take a little."""


def speedup(case: Case) -> Interval:
    """Of decoding: over Base by time per output token, as the report has it."""
    comparison = case.cell("SD").comparison
    assert comparison is not None
    assert comparison.by_time_per_output_token is not None
    return comparison.by_time_per_output_token


def prefill(case: Case, variant: str) -> Interval:
    """TTFT by that of Base, with every value that the two intervals allow."""
    samples = [case.cell(name).measure(TTFT) for name in (variant, "Base")]
    ttft, base = (sample.typical for sample in samples if sample)
    assert ttft is not None
    assert base is not None
    return Interval(ttft.point / base.point, ttft.low / base.high, ttft.high / base.low)
