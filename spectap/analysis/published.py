"""What was measured of each figure that others have published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spectap import metrics
from spectap.analysis import contrasts, grouping
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Cell, Reproduction, Summary
from spectap.metrics import Metric
from spectap.published import Figure, Publication, PublishedFigure
from spectap.record import Record


def reproductions(
    publications: Iterable[Publication], summary: Summary, evidence: Evidence
) -> Iterator[Reproduction]:
    """What was measured of each publication."""
    cells = {
        CellKey(cell.test_case, cell.load.name, cell.variant): cell
        for case in summary.cases
        for cell in case.cells
        if cell.load
    }
    for publication in publications:
        place = publication.test_case, publication.name
        keys = [CellKey(*place, figure.variant) for figure in publication.figures]
        measured = (
            _measured(figure, key, cells[key], evidence) if key in cells else None
            for figure, key in zip(publication.figures, keys, strict=True)
        )
        yield Reproduction(publication, tuple(measured))


def _measured(
    published: PublishedFigure, key: CellKey, cell: Cell, evidence: Evidence
) -> Interval | None:
    comparison, steps = cell.comparison, cell.steps
    match published.figure:
        case Figure.TOKENS_PER_SECOND:
            return cell.tokens_per_second_interval or _exact(cell.tokens_per_second)
        case Figure.TPOT:
            return _milliseconds(cell, metrics.TIME_PER_OUTPUT_TOKEN)
        case Figure.TTFT:
            return _milliseconds(cell, metrics.TTFT)
        case Figure.REQUEST_SPEEDUP if comparison:
            return comparison.speedup
        case Figure.DECODING_SPEEDUP if comparison:
            return comparison.by_time_per_output_token
        case Figure.THROUGHPUT_SPEEDUP if comparison and comparison.cost:
            return comparison.by_tokens or comparison.cost.interval
        case Figure.ACCEPTANCE_LENGTH if steps:
            return steps.interval or _exact(steps.mean)
        case Figure.ACCEPTANCE if published.position:
            return _acceptance(evidence.by_cell[key], published.position, evidence.plan.alpha)
    return None


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value)


def _milliseconds(cell: Cell, metric: Metric) -> Interval | None:
    """The median of a typical round, which has an interval, or else that of all requests."""
    sample = cell.measure(metric)
    median = sample and (sample.typical or _exact(sample.p50))
    return median.scaled(1000) if median else None


def _acceptance(records: Sequence[Record], position: int, alpha: float) -> Interval | None:
    """The share of steps that accept the draft at ``position`` and all before it, as vLLM has it.

    Without the last step of each answer, whose end may have cut drafts off.
    """
    pairs = []
    for (of_round,) in grouping.rounds(record for record in records if record.succeeded).values():
        sizes = [n for record in of_round if record.shows_steps for _, n in record.chunks[1:-1]]
        pairs.append((sum(size > position for size in sizes), len(sizes)))
    if estimate := contrasts.ratio_of_sums(pairs):
        return estimate.interval(alpha)
    steps = sum(count for _, count in pairs)
    return _exact(sum(accepted for accepted, _ in pairs) / steps) if steps else None
