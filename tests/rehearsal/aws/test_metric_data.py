"""GetMetricData as CloudWatch answers it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rehearsal.aws.metric_data import Datum, MetricDataError, answer

MINUTE = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
END = MINUTE + timedelta(minutes=10)
NONE: frozenset[tuple[str, str]] = frozenset()


def datum(
    value: float,
    *,
    name: str = "TTFT",
    namespace: str = "Qwen/LLMPerf",
    dimensions: frozenset[tuple[str, str]] = NONE,
    second: float = 0,
) -> Datum:
    return Datum(namespace, name, dimensions, MINUTE.timestamp() + second, value)


def ask(stat: str, name: str = "TTFT", identifier: str = "m", **more: Any) -> dict[str, Any]:
    metric = {"Namespace": "Qwen/LLMPerf", "MetricName": name}
    return {"Id": identifier, "MetricStat": {"Metric": metric, "Period": 60, "Stat": stat}} | more


def values(data: list[Datum], *queries: dict[str, Any]) -> list[list[float]]:
    return [result["values"] for result in answer(data, queries, MINUTE, END)]


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        ("p50", 2.5),
        ("p90", 3.7),
        ("p99.9", 3.997),
        ("p0", 1),
        ("p100", 4),
        ("Average", 2.5),
        ("Sum", 10),
        ("Minimum", 1),
        ("Maximum", 4),
        ("SampleCount", 4),
    ],
)
def test_statistics(stat: str, expected: float) -> None:
    data = [datum(value) for value in (4, 1, 3, 2)]
    assert values(data, ask(stat)) == [[pytest.approx(expected)]]


def test_periods_begin_at_whole_minutes_wherever_the_range_begins() -> None:
    data = [datum(1, second=10), datum(3, second=59), datum(5, second=61)]
    start = MINUTE + timedelta(seconds=30)
    (result,) = answer(data, [ask("Sum")], start, END, newest_first=False)
    assert result["values"] == [4, 5]
    assert result["timestamps"] == [MINUTE, MINUTE + timedelta(minutes=1)]


def test_newest_first_unless_asked_otherwise() -> None:
    assert values([datum(1), datum(5, second=61)], ask("Sum")) == [[5, 1]]


def test_what_is_not_asked_for_does_not_count() -> None:
    data = [
        datum(1),
        datum(2, namespace="Other"),
        datum(3, name="OutputTokens"),
        datum(4, dimensions=frozenset({("Variant", "SD")})),
        datum(5, second=-1),
        datum(6, second=600),
    ]
    assert values(data, ask("Sum")) == [[1]]


def test_arithmetic_where_all_operands_have_a_value() -> None:
    data = [datum(6, name="A"), datum(3, name="B"), datum(8, name="A", second=60)]
    hidden = {"ReturnData": False}
    operands = (ask("p50", "A", "a", **hidden), ask("p50", "B", "b", **hidden))
    assert values(data, {"Id": "e", "Expression": "a / b"}, *operands) == [[2]]
    assert values(data, *operands, {"Id": "e", "Expression": "10 / (a * 4)"}) == [
        [10 / 32, 10 / 24]
    ]
    assert values(data, *operands, {"Id": "e", "Expression": "-a + b - 0.5"}) == [[-3.5]]


def test_a_division_by_zero_has_no_value() -> None:
    data = [datum(1, name="A"), datum(0, name="B")]
    quotient = {"Id": "e", "Expression": "a / b"}
    assert values(data, ask("Sum", "A", "a"), ask("Sum", "B", "b"), quotient)[2] == []


@pytest.mark.parametrize("expression", ["a / nobody", "SUM(METRICS())", "a ** 2"])
def test_refusals(expression: str) -> None:
    with pytest.raises(MetricDataError):
        values([datum(1, name="A")], ask("Sum", "A", "a"), {"Id": "e", "Expression": expression})


def test_an_unknown_statistic_is_refused() -> None:
    with pytest.raises(MetricDataError, match="tm99"):
        values([datum(1)], ask("tm99"))
