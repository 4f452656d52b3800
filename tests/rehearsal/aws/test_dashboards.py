"""Dashboards are read as the console shows them, and compared with what was published."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiment import Experiment
from experiment.variants import variants
from rehearsal.aws import checks, dashboards
from rehearsal.aws.client import Aws
from rehearsal.aws.dashboards import Curve, Identity
from rehearsal.errors import RehearsalError
from spectap import names
from spectap.metrics import METRICS, TIME_PER_OUTPUT_TOKEN, TOKENS_PER_STEP, TOTALS, TTFT
from tests.matrix import LADDER
from tests.synthesis import Synthesised


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


def curves_of(synthesised: Synthesised) -> list[Curve]:
    """The curves of an experiment's own dashboards."""
    experiment = synthesised.experiment
    template = synthesised.directory / f"{experiment.name}-observability.template.json"
    return dashboards.curves(template, experiment.aws.region)


def publish(
    aws: Aws, experiment: Experiment, *without: tuple[str, str, str], left_out: str = ""
) -> None:
    """One value of every metric, without some (test case, variant, metric) and a load point."""
    cloudwatch = aws.client("cloudwatch")
    points = [point for point in experiment.benchmark.points if point.name != left_out]
    for case in experiment.benchmark.test_cases:
        data = [
            datum(metric.name, experiment.name, variant.name, case.name, load=load)
            for load in ([point.name for point in points] if len(points) > 1 else [""])
            for variant in variants(experiment)
            for metric in (*METRICS, *TOTALS)
            if (case.name, variant.name, metric.name) not in without
            and (metric is not TOKENS_PER_STEP or experiment.shows_steps(case))
        ]
        cloudwatch.put_metric_data(Namespace=names.NAMESPACE, MetricData=data)


def datum(
    metric: str,
    experiment: str,
    variant: str,
    case: str,
    value: float = 1.0,
    ago: float = 0.0,
    load: str = "",
) -> dict[str, Any]:
    """One value, of a minute ``ago`` seconds before now."""
    dimensions = {
        names.EXPERIMENT_DIMENSION: experiment,
        names.VARIANT_DIMENSION: variant,
        names.TEST_CASE_DIMENSION: case,
    } | ({names.LOAD_DIMENSION: load} if load else {})
    return {
        "MetricName": metric,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
        "Timestamp": (time.time() - ago) // 60 * 60,
        "Value": value,
    }


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


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (graph(["N", "A"], ["...", "SD"]), "cannot read the metric"),
        (graph(["N", "A", {"id": "Upper"}]), "takes no id 'Upper'"),
        (graph(["N", "A", {"id": "a"}], [{"expression": "a / b"}]), "b is the id of no metric"),
        (graph(["N", "A", {"id": "a"}], [{"expression": "a / "}]), "cannot read 'a / '"),
        ({"type": "log", "properties": {}}, "a widget of type log"),
    ],
)
def test_what_cloudwatch_refuses_is_refused(
    tmp_path: Path, item: dict[str, Any], problem: str
) -> None:
    with pytest.raises(RehearsalError, match=problem):
        read(tmp_path, item)


def test_dashboards_and_metrics_have_to_match(
    aws: Aws, synthesised: Synthesised, article: Experiment
) -> None:
    curves = curves_of(synthesised)
    with pytest.raises(RehearsalError, match=r"Figure 3.*: structured, Base shows nothing; .*more"):
        checks.dashboards_show(aws, curves)

    publish(aws, article, ("counting", "SD", TIME_PER_OUTPUT_TOKEN.name))
    with pytest.raises(RehearsalError) as caught:
        checks.dashboards_show(aws, curves)
    assert str(caught.value) == (
        "dashboards: article-comparison: Decoding speed-up of every test case: time per "
        "output token, baseline over variant: counting, SD shows nothing; counting (structured): "
        "Time per output token: SD p50 shows nothing; counting (structured): Decoding speed-up "
        "over the baseline: SD over Base shows nothing"
    )

    publish(aws, article)
    assert checks.dashboards_show(aws, curves) == (
        "232 curves draw the 220 published metrics (12 others draw node telemetry, and there are "
        "no nodes)"
    )

    # The same experiment with another variant; and another experiment with the same variant.
    for experiment, variant in (("article", "Third"), ("another", "SD")):
        data = [datum(TTFT.name, experiment, variant, "counting")]
        aws.client("cloudwatch").put_metric_data(Namespace=names.NAMESPACE, MetricData=data)
    with pytest.raises(RehearsalError) as caught:
        checks.dashboards_show(aws, curves)
    assert str(caught.value) == (
        "dashboards: TTFT of another counting SD is on no dashboard; TTFT of article "
        "counting Third is on no dashboard"
    )
    own = [("Variant", "Third"), ("Experiment", "another")]
    assert checks.dashboards_show(aws, curves, added=own).endswith(
        "there are no nodes); 2 metrics of Third, another are on none"
    )


def test_a_ladder_is_drawn_whole_but_for_what_was_left_out(
    aws: Aws, of_matrix: Callable[[str], Synthesised]
) -> None:
    ladder = of_matrix(LADDER)
    experiment, curves = ladder.experiment, curves_of(ladder)
    aws = replace(aws, region=experiment.aws.region)
    publish(aws, experiment, left_out="concurrency-8")
    with pytest.raises(RehearsalError, match=r"concurrency-8.* shows nothing"):
        checks.dashboards_show(aws, curves)
    found = checks.dashboards_show(aws, curves, without=[("Load", "concurrency-8")])
    assert re.search(r"84 published metrics .* \d+ are of what was not measured\)$", found)

    # What is not whole may have published something before it failed; its curves show that.
    publish(aws, experiment)
    checks.dashboards_show(aws, curves, without=[("Load", "concurrency-8")])
    assert checks.dashboards_show(aws, curves).endswith(
        "curves draw the 126 published metrics (12 others draw node telemetry, and there are no "
        "nodes)"
    )

    data = [datum(TTFT.name, experiment.name, "SD", "tools", load="concurrency-64")]
    aws.client("cloudwatch").put_metric_data(Namespace=names.NAMESPACE, MetricData=data)
    with pytest.raises(RehearsalError, match="TTFT of ab concurrency-64 tools SD is on no dashb"):
        checks.dashboards_show(aws, curves)


def test_dashboards_and_report_have_to_name_the_same_costs(
    aws: Aws, synthesised: Synthesised, article: Experiment, tmp_path: Path
) -> None:
    """Of a run of two turns; of the case ``meaning-of-life`` the report has no cost."""
    cloudwatch = aws.client("cloudwatch")
    data = [
        datum(name, article.name, variant.name, case.name, value, ago)
        for case in article.benchmark.test_cases
        for variant in variants(article)
        for name, values in (("RequestTime", (10.0, 5.0, 99.0)), ("ServedTokens", (2000, 500, 1)))
        # Of two turns, and of a run the day before.
        for value, ago in zip(values, (300, 1800, 86400), strict=True)
    ]
    cloudwatch.put_metric_data(Namespace=names.NAMESPACE, MetricData=data)
    usd = 35.7608 / 2 / 3600 * 1e6 * (10 + 5) / 4 / (2000 + 500)
    point = {"concurrency": 4, "requests": 4}
    cells = [
        {
            "test_case": case.name,
            "variant": variant.name,
            "load": point,
            "usd_per_million_output_tokens": usd,
        }
        for case in article.benchmark.test_cases
        for variant in variants(article)
    ]

    def compared(added: Collection[tuple[str, str]] = ()) -> str:
        now = time.time()
        summary = {
            "started": now - 3600,
            "ended": now - 240,
            "loads": [point],
            "cases": [{"cells": cells}],
        }
        (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        return checks.costs_agree(aws, curves_of(synthesised), tmp_path, added=added)

    assert compared() == "20 costs, all the same"

    cells[0]["usd_per_million_output_tokens"] = None
    assert compared() == "19 costs, all the same"

    cells[1]["usd_per_million_output_tokens"] = 32.5
    cells[2]["variant"] = "Third"
    with pytest.raises(RehearsalError) as caught:
        compared()
    assert str(caught.value) == (
        "dashboards: repeat-line SD: 32.5000 USD in the report, 7.4501 here; "
        "meaning-of-life Third: 7.4502 USD in the report, nan here"
    )
    cells[1]["usd_per_million_output_tokens"] = usd
    assert compared([("Variant", "Third")]) == "18 costs, all the same"


def test_costs_of_a_ladder_are_told_apart_by_load_point(
    aws: Aws, of_matrix: Callable[[str], Synthesised], tmp_path: Path
) -> None:
    """A rate has none, in the report and on the dashboard."""
    ladder = of_matrix(LADDER)
    experiment = ladder.experiment
    points = experiment.benchmark.points
    tokens = {point.name: 1000.0 * number for number, point in enumerate(points, start=1)}
    data = [
        datum(name, experiment.name, "SD", "tools", value, ago=300, load=point.name)
        for point in points
        for name, value in (("RequestTime", 10.0), ("ServedTokens", tokens[point.name]))
    ]
    aws = replace(aws, region=experiment.aws.region)
    aws.client("cloudwatch").put_metric_data(Namespace=names.NAMESPACE, MetricData=data)
    usd = 35.7608 / 2 / 3600 * 1e6 * 10
    costs = {
        point.name: usd / point.concurrency / tokens[point.name] if point.concurrency else None
        for point in points
    }
    cells = [
        {
            "test_case": "tools",
            "variant": "SD",
            "load": point.model_dump(),
            "usd_per_million_output_tokens": costs[point.name],
        }
        for point in points
    ]

    def compared() -> str:
        summary = {
            "started": time.time() - 3600,
            "ended": time.time() - 240,
            "loads": [point.model_dump() for point in points],
            "cases": [{"cells": cells}],
        }
        (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        return checks.costs_agree(aws, curves_of(ladder), tmp_path)

    assert compared() == "2 costs, all the same"
    for cell in cells[:2]:
        cell["usd_per_million_output_tokens"] = costs["concurrency-2"]
    with pytest.raises(RehearsalError, match=r"tools SD concurrency-8: .* in the report"):
        compared()


def test_the_bucket_has_to_hold_the_run(aws: Aws, tmp_path: Path) -> None:
    s3, bucket = aws.client("s3"), "article-models"
    where = {"LocationConstraint": aws.region}
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
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
