"""The rows of CSV files. A column's name has its unit; ratios and counts have none."""

import csv
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from pydantic_core import to_jsonable_python

from spectap import metrics
from spectap.analysis.summary import Summary
from spectap.metrics import Metric
from spectap.records.record import Record

_REQUEST: Final = (
    *("run", "variant", "case", "load", "round", "launch", "attempt", "request", "prompt"),
    *("prompt_class", "status", "error", "finish", "model"),
)
_RATES: Final = ("tokens_per_second", "usd_per_million_output_tokens")
_CELL: Final = ("variant", "requests", "errors", "missing", "queued", *_RATES)


def of_requests(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """A row for each request. No figure uses requests of rounds below 1."""
    # A request has several gaps between chunks: the ledger has them.
    figures = [metric for metric in metrics.METRICS if metric is not metrics.INTER_CHUNK_LATENCY]
    for record in records:
        row = {name: getattr(record, name) for name in _REQUEST}
        row |= {"sent_unix_seconds": record.sent, "took_seconds": record.end}
        yield row | {_column(m): next(iter(m.values(record)), None) for m in figures}


def of_cells(summaries: Iterable[Summary]) -> Iterator[dict[str, Any]]:
    """A row for each cell, with its ratios to the baseline; above 1 it is better."""
    for summary in summaries:
        for cell in chain.from_iterable(case.cells for case in summary.cases):
            content = to_jsonable_python(cell)
            row = {"run": summary.run, "case": cell.test_case}
            row |= {"load": cell.load and cell.load.name} | {name: content[name] for name in _CELL}
            for metric in metrics.METRICS:
                for part in ("p50", "p90", "p99"):
                    row[_column(metric, part)] = getattr(cell.measure(metric), part, None)
            compared = content["comparison"] or {"verdict": {}}
            row["baseline"] = compared.get("baseline")
            row |= {name: compared["verdict"].get(name) for name in ("finding", "action")}
            claims = {
                name: (compared.get(name) or {}).get("interval") for name in ("speed", "cost")
            }
            for name, interval in (claims | {n: content[f"{n}_interval"] for n in _RATES}).items():
                ends = interval or {}
                row |= {name: row.get(name, ends.get("point"))}
                row |= {f"{name}_{end}": ends.get(end) for end in ("low", "high")}
            yield row


def show(rows: Iterable[dict[str, Any]]) -> None:
    """Prints rows as CSV, with the first row's columns as the header."""
    for number, row in enumerate(rows):
        if number == 0:
            writer = csv.DictWriter(sys.stdout, [*row], lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)


def _column(metric: Metric, *part: str) -> str:
    return "_".join((metric.name, *part, *metric.axis.split()))
