"""What others have published beside what was measured: a table for each test case and load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spectap import palette, wording
from spectap.analysis.estimates import intervals
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Summary
from spectap.published import Figure, PublishedFigure
from spectap.report import phrases
from spectap.report.view import Columns, Row, Table

EXPLANATION: Final = (
    "Published figures are others', measured elsewhere: no verdict, advice or other figure rests "
    "on them. A ratio is the measured figure divided by the published one; of TPOT and TTFT, below "
    "1 is faster."
)

_TITLES: Final = {
    Figure.TOKENS_PER_SECOND: "tokens/s together",
    Figure.TPOT: "TPOT p50, ms",
    Figure.TTFT: "TTFT p50, ms",
    Figure.REQUEST_SPEEDUP: "speed-up, request",
    Figure.DECODING_SPEEDUP: "speed-up, decoding",
    Figure.THROUGHPUT_SPEEDUP: "speed-up, tokens/s",
    Figure.ACCEPTANCE_LENGTH: "tokens a step",
    Figure.ACCEPTANCE: "accept draft {}, %",
}


def tables(summary: Summary) -> Iterator[tuple[Table, str]]:
    """Each with what was published where, and under which conditions."""
    colours = palette.of(summary.variants)
    columns = Columns("with 95 % intervals", ("ratio", "measured")), Columns("", ("published",))
    for reproduction in summary.published:
        publication = reproduction.publication
        rows = tuple(
            Row(
                (_TITLES[published.figure].format(published.position), published.variant),
                _texts(published, measured),
                colours[published.variant].role if published.variant in colours else "",
            )
            for published, measured in zip(publication.figures, reproduction.measured, strict=True)
        )
        title = f"Published: {publication.test_case} at {publication}"
        conditions = publication.conditions.rstrip(".")
        yield (
            Table(title, ("figure", "variant"), columns, (rows,)),
            f"Conditions: {conditions}. Source: {publication.source}",
        )


def _texts(published: PublishedFigure, measured: Interval | None) -> tuple[tuple[str, ...], ...]:
    scale = 100 if published.figure is Figure.ACCEPTANCE else 1
    value = (wording.significant(scale * published.value),)
    if measured is None:
        return (wording.MISSING, "not measured"), value
    shown = measured.scaled(scale)
    known = shown if shown.low < shown.high else None
    text = intervals.estimate(shown.point, known, wording.significant)
    return (str(phrases.speed(measured.scaled(1 / published.value))), text), value
