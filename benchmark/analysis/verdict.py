"""What one test case says about speculative decoding, as a finding and as a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from benchmark import wording
from benchmark.analysis.intervals import MINIMUM_SAMPLE, Interval

# Below this a difference can be real and still change nobody's decision.
MARGIN: Final = 0.05

# Beyond half, the median over all requests is itself a failed one.
TOLERATED_FAILURES: Final = 0.5


class Finding(Enum):
    """What can be said of SD against Base. The value is what summary.json carries."""

    FASTER = "faster"
    SLOWER = "slower"
    NEGLIGIBLE = "negligible"
    UNDECIDED = "undecided"
    TOO_FEW = "too few requests"
    FAILED = "failed"
    NOT_MEASURED = "not measured"

    @property
    def decided(self) -> bool:
        """Whether the case has a verdict at all."""
        return self in (Finding.FASTER, Finding.SLOWER, Finding.NEGLIGIBLE, Finding.UNDECIDED)


@dataclass(frozen=True)
class Tally:
    """How the requests of one variant ended."""

    variant: str
    requests: int
    errors: int
    most_frequent_error: str | None = None

    @property
    def succeeded(self) -> int:
        """Requests that count."""
        return self.requests - self.errors

    @property
    def unreliable(self) -> bool:
        """Whether too many requests failed for the rest to stand for them."""
        return self.errors > TOLERATED_FAILURES * self.requests


@dataclass(frozen=True)
class Verdict:
    """A finding and the sentence that says it."""

    finding: Finding
    sentence: str


def judge(
    base: Tally, speculative: Tally, speedup: Interval | None, measure: str | None = None
) -> Verdict:
    """The verdict of one test case.

    ``speedup`` above 1 means SD is faster; None means no interval could be computed. ``measure``
    names what it was taken from where that is not the usual one.
    """
    obstacle = _without_requests(base, speculative) or _with_failures(base, speculative)
    if obstacle is not None:
        return obstacle
    if speedup is None:
        return _too_few(base, speculative)
    return _decide(speedup, f" by {measure}" if measure else "", speculative.errors > base.errors)


def _without_requests(base: Tally, speculative: Tally) -> Verdict | None:
    missing = [tally.variant for tally in (base, speculative) if tally.requests == 0]
    if not missing:
        return None
    was = "was" if len(missing) == 1 else "were"
    sentence = f"No verdict: {' and '.join(missing)} {was} not measured."
    return Verdict(Finding.NOT_MEASURED, sentence)


def _with_failures(base: Tally, speculative: Tally) -> Verdict | None:
    broken = [tally for tally in (base, speculative) if tally.unreliable]
    if not broken:
        return None
    return Verdict(Finding.FAILED, f"No verdict: {' and '.join(map(_failures, broken))}.")


def _failures(tally: Tally) -> str:
    reason = f" ({tally.most_frequent_error})" if tally.most_frequent_error else ""
    if tally.succeeded == 0:
        return f"every {tally.variant} request failed{reason}"
    return f"{tally.errors} of {tally.requests} {tally.variant} requests failed{reason}"


def _too_few(base: Tally, speculative: Tally) -> Verdict:
    sizes = f"{base.succeeded} good requests of Base and {speculative.succeeded} of SD"
    need = f"an interval needs {MINIMUM_SAMPLE} measurable ones of each"
    return Verdict(Finding.TOO_FEW, f"No verdict: {sizes}; {need}.")


def _decide(speedup: Interval, by: str, more_errors: bool) -> Verdict:
    faster = speedup.point >= 1
    shown = speedup if faster else speedup.inverse
    claim = (
        f"SD is {wording.times(shown)} {'faster' if faster else 'slower'} here{by}, "
        f"95 % interval {wording.span(shown)}"
    )
    if speedup.covers_one:
        return Verdict(Finding.UNDECIDED, _no_difference(speedup, by))
    if speedup.within(MARGIN):
        return Verdict(Finding.NEGLIGIBLE, f"{claim}; too little to matter.")
    if not faster:
        return Verdict(Finding.SLOWER, f"{claim}; turn it off.")
    advice = "see to its errors before you keep it on" if more_errors else "keep it on"
    return Verdict(Finding.FASTER, f"{claim}; {advice}.")


def _no_difference(speedup: Interval, by: str) -> str:
    bound = f" and stays within {100 * MARGIN:.0f} % of it" if speedup.within(MARGIN) else ""
    return (
        f"No difference can be told here{by}: "
        f"the 95 % interval {wording.span(speedup)} covers 1{bound}."
    )
