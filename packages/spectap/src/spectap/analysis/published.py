"""Finds the measured counterparts of published figures."""

from collections.abc import Iterable, Iterator, Sequence

from spectap import metrics
from spectap.analysis import contrasts, grouping
from spectap.analysis.estimate import Interval
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.analysis.summary import Cell, Reproduction, Summary
from spectap.inputs.published import Figure, Publication
from spectap.metrics import Metric
from spectap.records.record import Record


def reproductions(
    publications: Iterable[Publication], summary: Summary, evidence: Evidence
) -> Iterator[Reproduction]:
    cells = [cell for case in summary.cases for cell in case.cells]
    by_key = {CellKey(c.test_case, c.load.name, c.variant): c for c in cells if c.load}
    for publication in publications:
        measured: list[Interval | None] = []
        for each in publication.figures:
            key = CellKey(publication.test_case, publication.name, each.variant)
            if each.position and key in by_key and _sure(by_key[key]):
                records = evidence.by_cell.get(key, ())
                measured.append(_acceptance(records, each.position, evidence.plan.alpha))
            else:
                measured.append(_measured(each.figure, by_key[key]) if key in by_key else None)
        yield Reproduction(publication, tuple(measured))


def _measured(figure: Figure, cell: Cell) -> Interval | None:
    comparison, steps = cell.comparison, cell.steps if _sure(cell) else None
    match figure:
        case Figure.TOKENS_PER_SECOND:
            return cell.tokens_per_second_interval or _exact(cell.tokens_per_second)
        case Figure.TPOT:
            return _median(cell, metrics.TIME_PER_OUTPUT_TOKEN)
        case Figure.TTFT:
            return _median(cell, metrics.TTFT)
        case Figure.ACCEPTANCE_LENGTH if steps:
            return steps.interval or _exact(steps.mean)
        case Figure.REQUEST_SPEEDUP if comparison:
            return comparison.speedup
        case Figure.DECODING_SPEEDUP if comparison:
            return comparison.by_time_per_output_token
        case Figure.THROUGHPUT_SPEEDUP if comparison and comparison.cost:
            return comparison.by_tokens or comparison.cost.interval
    return None


def _sure(cell: Cell) -> bool:
    return cell.steps is not None and not cell.steps.doubt


def _median(cell: Cell, metric: Metric) -> Interval | None:
    """The median in milliseconds: that of a typical round, or without one that of all requests."""
    sample = cell.measure(metric)
    median = sample and (sample.typical or _exact(sample.p50))
    return median.scaled(1000) if median else None


def _acceptance(records: Sequence[Record], position: int, alpha: float) -> Interval | None:
    """The share of steps that accept the draft at ``position`` and all before it, as vLLM defines
    it.

    The last step of each answer is left out: the answer's end may have cut its drafts.
    """
    pairs = []
    for (of_round,) in grouping.rounds(record for record in records if record.succeeded).values():
        sizes = [n for record in of_round if record.shows_steps for n in record.counts[1:-1]]
        pairs.append((sum(size > position for size in sizes), len(sizes)))
    accepted, steps = map(sum, zip(*pairs, strict=True)) if pairs else (0, 0)
    estimate = contrasts.ratio_of_sums(pairs)
    return estimate.interval(alpha) if estimate else _exact(accepted / steps if steps else None)


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value)
