"""What others have published beside what was measured: a table for each test case and load."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from spectap import palette, wording
from spectap.analysis.estimates import intervals
from spectap.analysis.summary import Reproduction, Summary
from spectap.published import Figure, PublishedFigure
from spectap.report import phrases
from spectap.report.view import Columns, Row, Table, grouped

TITLE: Final = "Published beside measured"
EXPLANATION: Final = (
    "Published figures are others', measured elsewhere: no verdict, advice or other figure rests "
    "on them. A ratio is the measured figure divided by the published one; of TPOT and TTFT, below "
    "1 is faster."
)

_COLUMNS: Final = (
    Columns("", ("published",)),
    Columns("with 95 % intervals", ("measured", "ratio")),
)
_TITLES: Final = {
    Figure.TOKENS_PER_SECOND: "tokens/s together",
    Figure.TPOT: "TPOT p50 ms",
    Figure.TTFT: "TTFT p50 ms",
    Figure.REQUEST_SPEEDUP: "speed-up, request",
    Figure.DECODING_SPEEDUP: "speed-up, decoding",
    Figure.THROUGHPUT_SPEEDUP: "speed-up, tokens/s",
    Figure.ACCEPTANCE_LENGTH: "tokens a step",
    Figure.ACCEPTANCE: "accepted, draft {}",
}


def tables(summary: Summary) -> Iterator[tuple[Table, str]]:
    """Each with what was published where, and under which conditions."""
    colours = palette.of(summary.variants)
    for publication, members in groupby(summary.published, lambda each: each.publication):
        rows = []
        for each in members:
            published = each.figure
            title = _TITLES[published.figure].format(published.position)
            values = (_write(published, published.value),), _beside(each)
            rows.append(
                (title, Row((title, published.variant), values, colours[published.variant].role))
            )
        title = f"{TITLE}: {publication.test_case} at {publication}"
        conditions = publication.conditions.rstrip(".")
        yield (
            Table(title, ("figure", "variant"), _COLUMNS, grouped(rows)),
            f"Published for {conditions}: {publication.source}",
        )


def _beside(reproduction: Reproduction) -> tuple[str, str]:
    published, measured = reproduction.figure, reproduction.measured
    if measured is None:
        return "not measured", wording.MISSING
    known = measured if measured.low < measured.high else None
    text = intervals.estimate(measured.point, known, lambda number: _write(published, number))
    return text, str(phrases.speed(measured.scaled(1 / published.value)))


def _write(published: PublishedFigure, number: float | None) -> str:
    if published.figure is Figure.ACCEPTANCE and number is not None:
        return f"{100 * number:.1f} %"
    return wording.significant(number) + ("x" if published.figure.endswith("speedup") else "")
