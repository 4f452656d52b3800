"""What others have published beside what was measured: a table for each test case and load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spectap import palette, wording
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Summary
from spectap.report import phrases
from spectap.report.view import Columns, Row, Table

EXPLANATION: Final = (
    "Published figures are others', measured elsewhere: no verdict, advice or other figure rests "
    "on them. A ratio is the measured figure divided by the published one; of tpot-ms and ttft-ms, "
    "which are medians, below 1 is faster. Acceptance is the share of steps that accept that draft."
)
_COLUMNS: Final = (
    Columns("with 95 % intervals", ("ratio", "measured")),
    Columns("", ("published",)),
)


def tables(summary: Summary) -> Iterator[tuple[Table, str]]:
    """Each with what was published where, and under which conditions."""
    colours = palette.of(summary.variants)
    for reproduction in summary.published:
        publication = reproduction.publication
        rows = tuple(
            Row(
                (f"{each.figure} {each.position or ''}".rstrip(), each.variant),
                (_beside(each.value, measured), (wording.significant(each.value),)),
                colours[each.variant].role if each.variant in colours else "",
            )
            for each, measured in zip(publication.figures, reproduction.measured, strict=True)
        )
        title = f"Published: {publication.test_case} at {publication}"
        conditions = publication.conditions.rstrip(".")
        yield (
            Table(title, ("figure", "variant"), _COLUMNS, (rows,)),
            f"Conditions: {conditions}. Source: {publication.source}",
        )


def _beside(published: float, measured: Interval | None) -> tuple[str, str]:
    if measured is None:
        return wording.MISSING, "not measured"
    known = measured if measured.low < measured.high else None
    text = intervals.estimate(measured.point, known, wording.significant)
    return str(phrases.speed(measured.scaled(1 / published))), text
