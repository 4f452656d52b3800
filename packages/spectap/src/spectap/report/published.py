"""Published figures beside measured ones: a table for each test case and load."""

from collections.abc import Iterator
from typing import Final

from spectap import wording
from spectap.analysis.summary import Summary
from spectap.inputs.published import MEDIANS
from spectap.report import palette, phrases
from spectap.report.view import Columns, Row, Table

_EXPLANATION: Final = (
    "Published figures are others', measured elsewhere: no verdict or other figure rests "
    "on them. A ratio is the measured figure divided by the published one; of tpot-ms and ttft-ms, "
    'which are medians, below 1 is faster. "*": the median of a typical round, which has an '
    "interval; p50 in other tables is that of all requests. Acceptance is the share of steps that "
    "accept that draft."
)
_REHEARSAL: Final = "This is a rehearsal: the measured figures are those of the stand-ins. "
_COLUMNS: Final = (
    Columns("published", ("",)),
    Columns("measured", ("",)),
    Columns("ratio", ("95 % interval",)),
)


def explanation(summary: Summary) -> str:
    return (_REHEARSAL if summary.rehearsal else "") + _EXPLANATION


def tables(summary: Summary) -> Iterator[tuple[Table, str, str]]:
    """The tables, each with the conditions of its publication and the URL of the source."""
    colours = palette.of(summary.variants)
    for reproduction in summary.published:
        publication = reproduction.publication
        rows = []
        for each, measured in zip(publication.figures, reproduction.measured, strict=True):
            figure, shown = "not measured", wording.MISSING
            if measured is not None:
                ratio = measured.scaled(1 / each.value)  # the published figure has no interval
                is_typical = each.figure in MEDIANS and ratio.low < ratio.high
                figure = wording.significant(measured.point) + ("*" if is_typical else "")
                shown = str(phrases.speed(ratio))
            values = (f"{each.value:,.10g}",), (figure,), (shown,)
            role = colours[each.variant].role if each.variant in colours else ""
            rows.append(Row((each.title, each.variant), values, role))
        title = f"Published: {publication.test_case} at {publication}"
        conditions = publication.conditions.rstrip(".")
        yield (
            Table(title, ("figure", "variant"), _COLUMNS, (tuple(rows),)),
            f"Conditions: {conditions}. Source:",
            publication.source,
        )
