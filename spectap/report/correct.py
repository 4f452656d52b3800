"""How it is written whether answers stayed right: in rows, and as a warning where they did not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spectap.analysis.summary import Correctness, Summary


@dataclass(frozen=True)
class Row:
    """One check of one variant against its baseline."""

    case: str
    variant: str
    check: str
    prompts: str
    rate: str
    baseline: str
    difference: str
    worse: bool


def warnings(summary: Summary) -> tuple[str, ...]:
    """A sentence for each check that a variant passes less often than its baseline."""
    return tuple(sentence(found) for found in summary.correctness if found.worse)


def sentence(found: Correctness) -> str:
    """What it says, after its test case if it has one."""
    return f"{found.test_case}: {found.sentence}" if found.test_case else found.sentence


def rows(summary: Summary) -> Iterator[Row]:
    """Every check that could be made, in percent and percentage points with 95 % intervals."""
    for found in summary.correctness:
        if not found.prompts:
            continue  # the sentence says so
        yield Row(
            case=found.test_case,
            variant=found.variant,
            check=f"{found.check} ({found.evaluation})" if found.evaluation else found.check,
            prompts=f"{found.prompts:,}",
            rate=_percent(found.rate, found.rate_interval),
            baseline=_percent(found.baseline_rate, found.baseline_interval),
            difference=_points(found.difference, found.difference_interval),
            worse=found.worse,
        )


def _percent(rate: float, interval: tuple[float, float]) -> str:
    low, high = (f"{100 * bound:.0f}" for bound in interval)
    return f"{100 * rate:.0f} % ({low}-{high})"


def _points(difference: float, interval: tuple[float, float]) -> str:
    """Percentage points, with their bounds."""
    point, low, high = (_signed(100 * one) for one in (difference, *interval))
    return f"{point} ({low} to {high})"


def _signed(points: float) -> str:
    size = f"{abs(points):.1f}"
    if size == "0.0":
        return size
    return f"\N{MINUS SIGN}{size}" if points < 0 else f"+{size}"
