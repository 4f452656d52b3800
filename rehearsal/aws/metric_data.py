"""CloudWatch's GetMetricData, as far as dashboards and alarms of this project go.

moto keeps every value that is put, but of its own GetMetricData these do not work (5.2.5): a
percentile ends in an internal error, metric math in no values, and a metric of another namespace
counts as the one that is asked for. So this one answers in its place.
"""

from __future__ import annotations

import ast
import operator
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

Series = dict[float, float]
"""Start of a period in Unix seconds -> value."""

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_STATISTICS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "Average": statistics.fmean,
    "Sum": sum,
    "Minimum": min,
    "Maximum": max,
    "SampleCount": len,
}
_PERCENTILE: Final = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")


class MetricDataError(ValueError):
    """A query that CloudWatch would refuse."""


class Datum(NamedTuple):
    """One value that was put."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]
    time: float
    value: float


def answer(
    data: Iterable[Datum],
    queries: Sequence[Mapping[str, Any]],
    start: datetime,
    end: datetime,
    *,
    newest_first: bool = True,
) -> list[dict[str, Any]]:
    """``MetricDataResults`` in moto's own form. Raises MetricDataError.

    Periods begin at multiples of their length, as CloudWatch's do: two metrics whose values fall
    into different minutes have no quotient.
    """
    points = list(data)
    found: dict[str, Series] = {}
    for query in queries:
        if "MetricStat" in query:
            found[query["Id"]] = _statistic(points, query["MetricStat"], start, end)
    for query in queries:
        if "Expression" in query:
            found[query["Id"]] = _mathematics(query["Expression"], found)
    return [
        _result(query, found[query["Id"]], newest_first)
        for query in queries
        if query.get("ReturnData", True)
    ]


def _statistic(
    data: Iterable[Datum], asked: Mapping[str, Any], start: datetime, end: datetime
) -> Series:
    metric, period = asked["Metric"], int(asked["Period"])
    dimensions = frozenset((d["Name"], d["Value"]) for d in metric.get("Dimensions", []))
    wanted = (metric["Namespace"], metric["MetricName"], dimensions)
    first, last = seconds(start) // period * period, seconds(end)
    periods: dict[float, list[float]] = defaultdict(list)
    for datum in data:
        if first <= datum.time < last and datum[:3] == wanted:
            periods[datum.time // period * period].append(datum.value)
    summarise = _summary(asked["Stat"])
    return {begin: float(summarise(values)) for begin, values in sorted(periods.items())}


def _summary(statistic: str) -> Callable[[Sequence[float]], float]:
    if match := _PERCENTILE.fullmatch(statistic):
        rank = float(match[1]) / 100
        return lambda values: _percentile(values, rank)
    if statistic not in _STATISTICS:
        raise MetricDataError(f"the statistic {statistic} is not known here")
    return _STATISTICS[statistic]


def _percentile(values: Sequence[float], rank: float) -> float:
    ordered = sorted(values)
    below, fraction = divmod(rank * (len(ordered) - 1), 1)
    lower = ordered[int(below)]
    return lower + fraction * (ordered[min(int(below) + 1, len(ordered) - 1)] - lower)


def _mathematics(expression: str, operands: Mapping[str, Series]) -> Series:
    """Arithmetic of series and numbers, where all series have a value; nothing where it fails."""
    tree = ast.parse(expression, mode="eval").body
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if unknown := names - operands.keys():
        raise MetricDataError(f"no query has the id {', '.join(sorted(unknown))}")
    common = set.intersection(*(set(operands[name]) for name in names)) if names else set()
    result: Series = {}
    for begin in sorted(common):
        try:
            result[begin] = _value(tree, {name: operands[name][begin] for name in names})
        except ZeroDivisionError:
            continue
    return result


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Name(id=name):
            return names[name]
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATORS:
            return _OPERATORS[type(operation)](_value(left, names), _value(right, names))
    raise MetricDataError(f"{ast.unparse(node)} is not known here")


def _result(query: Mapping[str, Any], series: Series, newest_first: bool) -> dict[str, Any]:
    begins = sorted(series, reverse=newest_first)
    return {
        "id": query["Id"],
        "label": query.get("Label") or query["Id"],
        "timestamps": [datetime.fromtimestamp(begin, UTC) for begin in begins],
        "values": [series[begin] for begin in begins],
        "status_code": "Complete",
    }


def seconds(moment: datetime) -> float:
    """Unix seconds; a time without a zone is in UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
