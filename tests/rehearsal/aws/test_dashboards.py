"""Dashboards are read as the console shows them, and compared with what was published."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

from rehearsal import RehearsalError
from rehearsal.aws import checks, dashboards
from rehearsal.aws.client import Aws
from rehearsal.aws.dashboards import Curve, Identity
from spectap import names
from spectap.metrics import TTFT

COSTS: Final = (("RequestTime", "time"), ("ServedTokens", "tokens"))

NAMESPACE = names.namespace("Qwen/Qwen3-32B")


def graph(*rows: Any) -> dict[str, Any]:
    return {"type": "metric", "properties": {"title": "a title", "metrics": list(rows)}}


def read(directory: Path, *widgets: dict[str, Any]) -> list[Curve]:
    """The curves of a template with one dashboard."""
    before, after = json.dumps({"widgets": widgets, "r": "REGION"}).split("REGION")
    body = {"Fn::Join": ["", [before, {"Ref": "AWS::Region"}, after]]}
    dashboard = {
        "Type": "AWS::CloudWatch::Dashboard",
        "Properties": {"DashboardName": "rows", "DashboardBody": body},
    }
    path = directory / "template.json"
    path.write_text(json.dumps({"Resources": {"Dashboard": dashboard}}), encoding="utf-8")
    return dashboards.curves(path, "us-east-2")


def dimensions(experiment: str, variant: str, case: str, load: str = "") -> dict[str, str]:
    return {
        names.EXPERIMENT_DIMENSION: experiment,
        names.VARIANT_DIMENSION: variant,
        names.TEST_CASE_DIMENSION: case,
    } | ({names.LOAD_DIMENSION: load} if load else {})


def datum(
    metric: str, *of: str, value: float = 1.0, ago: float = 0.0, load: str = ""
) -> dict[str, Any]:
    """One value ``of`` experiment, variant and case, of a minute ``ago`` seconds before now."""
    experiment, variant, case = of
    pairs = dimensions(experiment, variant, case, load).items()
    return {
        "MetricName": metric,
        "Dimensions": [{"Name": name, "Value": value} for name, value in pairs],
        "Timestamp": (time.time() - ago) // 60 * 60,
        "Value": value,
    }


def put(aws: Aws, *data: dict[str, Any]) -> None:
    aws.client("cloudwatch").put_metric_data(Namespace=NAMESPACE, MetricData=data)


def test_a_curve_knows_the_metrics_behind_it(tmp_path: Path) -> None:
    title = {"type": "text", "properties": {"markdown": "## counting\nfrom 1"}}
    rows = graph(
        ["N", "A", "Variant", "SD", {"stat": "p90", "id": "a", "visible": False}],
        [{"expression": "a * 2", "label": "twice"}],
        ["N", "B"],
    )
    hidden = Identity("N", "A", frozenset({("Variant", "SD")}))
    assert read(tmp_path, title, rows) == [
        Curve("counting: a title", "twice", "a * 2", {"a": (hidden, "p90")}),
        Curve(
            "counting: a title",
            "N B",
            "row2",
            {"row2": (Identity("N", "B", frozenset()), "Average")},
        ),
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("a", 6), ("2 * a / b", 4), ("a - b * 0.5", 4.5), ("(a + b) / b", 3)],
)
def test_a_curve_calculates_as_cloudwatch_does(expression: str, expected: float) -> None:
    metrics = {name: (Identity("N", name, frozenset()), "Sum") for name in "ab"}
    values = {"a": 6.0, "b": 3.0}
    curve = Curve("a place", "a label", expression, metrics)
    assert curve.value(lambda metric, statistic: values[metric.name]) == expected


@pytest.mark.parametrize("expression", ["a / 0", "RATE(a)", "a ** 2", "-a", "'x' + a"])
def test_a_curve_calculates_nothing_else(expression: str) -> None:
    curve = Curve("a place", "", expression, {"a": (Identity("N", "A", frozenset()), "Sum")})
    with pytest.raises(RehearsalError, match="a place: cannot calculate"):
        curve.value(lambda metric, statistic: 1)


def test_dashboards_and_metrics_have_to_match(aws: Aws, tmp_path: Path) -> None:
    def row(variant: str) -> list[str]:
        pairs = dimensions("article", variant, "counting").items()
        return [
            NAMESPACE,
            TTFT.name,
            *(value for pair in pairs for value in pair),
        ]

    nodes = graph(["Telemetry", "node_cpu"])
    hidden = [[*row(name), {"id": name.lower(), "visible": False}] for name in ("Base", "SD")]
    quotient = graph(*hidden, [{"expression": "base / sd"}])
    curves = read(tmp_path, nodes, graph(row("Base"), row("SD")), quotient)
    with pytest.raises(
        RehearsalError, match=r"TTFT.* Base .* shows nothing; .* SD .* shows nothing"
    ):
        checks.dashboards_show(aws, curves)
    put(aws, datum(TTFT.name, "article", "Base", "counting"))
    with pytest.raises(RehearsalError, match=r"TTFT.* SD .* nothing; .*base / sd shows nothing"):
        checks.dashboards_show(aws, curves)
    words = (
        "the 1 published metrics (1 others draw node telemetry, and there are no nodes; 2 are of"
    )
    assert words in checks.dashboards_show(aws, curves, without=[("Variant", "SD")])
    put(aws, datum(TTFT.name, "article", "SD", "counting"))
    assert checks.dashboards_show(aws, curves).startswith("3 curves draw the 2 published metrics")

    # The same experiment with another variant; and another experiment with the same variant.
    put(aws, datum(TTFT.name, "article", "Third", "counting"))
    put(aws, datum(TTFT.name, "another", "SD", "counting"))
    with pytest.raises(RehearsalError) as caught:
        checks.dashboards_show(aws, curves)
    assert str(caught.value) == (
        "dashboards: TTFT of another counting SD is on no dashboard; TTFT of article "
        "counting Third is on no dashboard"
    )
    added = [("Variant", "Third"), ("Experiment", "another")]
    assert checks.dashboards_show(aws, curves, added=added).endswith(
        "there are no nodes); 2 metrics of Third, another are on none"
    )
    with pytest.raises(RehearsalError, match="none draws what the benchmark publishes"):
        checks.dashboards_show(
            aws, read(tmp_path, nodes), added=[*added, ("Experiment", "article")]
        )


def test_another_widget_is_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="rows: a widget of type log"):
        read(tmp_path, {"type": "log", "properties": {}})


@pytest.fixture(scope="module")
def of_costs(aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> list[Curve]:
    """A cost of two loads, each with two turns of now and one of the day before."""
    of, rows = ("costs", "SD", "tools"), []
    for load, scale in (("concurrency-1", 1), ("concurrency-8", 2)):
        for (metric, id_), values in zip(COSTS, ((10, 5, 99), (200, 50, 1)), strict=True):
            id_ += str(scale)
            pairs = [value for pair in dimensions(*of, load).items() for value in pair]
            options = {"id": id_, "visible": False, "stat": "Sum"}
            rows.append([NAMESPACE, metric, *pairs, options])
            for value, ago in zip(values, (300, 1800, 86400), strict=True):
                put(aws, datum(metric, *of, value=value, ago=ago, load=load))
        rows.append([{"expression": f"{scale} * time{scale} / tokens{scale}", "label": load}])
    return read(tmp_path_factory.mktemp("costs"), graph(*rows))


@pytest.mark.parametrize(
    ("reported", "added", "result"),
    [
        ({"SD": (0.06, 0.12)}, [], "2 costs, all the same"),
        ({"SD": (0.06, None)}, [], "1 costs, all the same"),
        ({"SD": (0.06, 0.06)}, [], "tools SD concurrency-8: 0.0600 USD in the report, 0.1200 here"),
        ({"Third": (0.06, None)}, [], "tools Third concurrency-1: 0.0600 USD in .* nan here"),
        ({"SD": (0.06, 0.12), "Third": (1, 1)}, [("Variant", "Third")], "2 costs, all the same"),
        ({"SD": (None, None)}, [], "has no cost to compare"),
    ],
)
def test_dashboards_and_report_have_to_have_the_same_costs(
    aws: Aws,
    of_costs: list[Curve],
    tmp_path: Path,
    reported: dict[str, tuple[float | None, float | None]],
    added: list[tuple[str, str]],
    result: str,
) -> None:
    """They are told apart by load point, over the run's time alone."""
    loads = [{"concurrency": count, "requests": count} for count in (1, 8)]
    cells = [
        {
            "test_case": "tools",
            "variant": variant,
            "load": load,
            "usd_per_million_output_tokens": usd,
        }
        for variant, costs in reported.items()
        for load, usd in zip(loads, costs, strict=True)
    ]
    now = time.time()
    summary = {"started": now - 3600, "ended": now - 240, "loads": loads}
    path = tmp_path / names.SUMMARY
    path.write_text(json.dumps(summary | {"cases": [{"cells": cells}]}), encoding="utf-8")
    try:
        words = checks.costs_agree(aws, of_costs, tmp_path, added=added)
    except RehearsalError as error:
        words = str(error)
    assert re.search(result, words)


def test_the_bucket_has_to_hold_the_run(aws: Aws, tmp_path: Path) -> None:
    s3, bucket = aws.client("s3"), "article-models"
    location = {"LocationConstraint": aws.region}
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=location)
    run = tmp_path / "run-1"
    (run / "llmperf").mkdir(parents=True)
    for name in ("ledger.jsonl", "llmperf/a b.json"):
        (run / name).write_text(name)
        s3.put_object(Bucket=bucket, Key=f"results/run-1/{name}", Body=name)
    assert checks.bucket_holds(aws, bucket, run).startswith("2 files, all the same")

    (run / "ledger.jsonl").write_text("longer by now")
    (run / "report.html").write_text("new")
    s3.put_object(Bucket=bucket, Key="results/run-1/stale", Body="")
    with pytest.raises(RehearsalError) as caught:
        checks.bucket_holds(aws, bucket, run)
    assert str(caught.value) == (
        f"s3://{bucket}: report.html is missing; stale is in the bucket alone; ledger.jsonl differs"
    )
