"""Dashboards are read as the console shows them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmark.metrics import METRICS, TIME_PER_OUTPUT_TOKEN, TTFT
from benchmark.names import BASE, NAMESPACE, VARIANTS
from experiment import Experiment
from rehearsal.aws import checks, dashboards
from rehearsal.aws.client import Aws
from rehearsal.errors import RehearsalError

START = datetime.now(UTC) - timedelta(minutes=1)


def metric(*row: Any) -> dict[str, Any]:
    return {"type": "metric", "properties": {"title": "a title", "metrics": list(row)}}


def deploy(aws: Aws, name: str, *items: dict[str, Any]) -> Any:
    cloudwatch = aws.client("cloudwatch")
    cloudwatch.put_dashboard(DashboardName=name, DashboardBody=json.dumps({"widgets": items}))
    return cloudwatch


def publish(aws: Aws, experiment: Experiment, *without: tuple[str, str, str]) -> None:
    """One value of every metric, without some (test case, variant, metric)."""
    cloudwatch = aws.client("cloudwatch")
    for case in experiment.benchmark.test_cases:
        data = [
            {
                "MetricName": metric.name,
                "Dimensions": [
                    {"Name": "Variant", "Value": variant},
                    {"Name": "TestCase", "Value": case.name},
                ],
                "Value": 2.0 if variant == BASE else 0.5,
                # Of one period, however long it takes to publish them.
                "Timestamp": START,
            }
            for variant in VARIANTS
            for metric in METRICS
            if (case.name, variant, metric.name) not in without
        ]
        cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)


def test_rows_become_queries(aws: Aws) -> None:
    title = {"type": "text", "properties": {"markdown": "## counting\nfrom 1"}}
    graph = metric(
        ["N", "A", "Variant", "SD", {"stat": "p90", "period": 60, "id": "a", "visible": False}],
        [{"expression": "a * 2", "label": "twice"}],
        ["N", "B"],
    )
    cloudwatch = deploy(aws, "rows", title, graph)
    (widget,) = dashboards.widgets(cloudwatch, "rows")
    assert widget.place == "counting: a title"
    assert widget.namespaces == {"N"}
    hidden, twice, plain = widget.queries
    assert hidden["MetricStat"] == {
        "Metric": {
            "Namespace": "N",
            "MetricName": "A",
            "Dimensions": [{"Name": "Variant", "Value": "SD"}],
        },
        "Period": 60,
        "Stat": "p90",
    }
    assert (hidden["Id"], hidden["ReturnData"]) == ("a", False)
    assert twice == {"Id": "row1", "ReturnData": True, "Expression": "a * 2", "Label": "twice"}
    # CloudWatch's own defaults.
    assert (plain["MetricStat"]["Period"], plain["MetricStat"]["Stat"]) == (300, "Average")


def test_visible_curves_have_their_values(aws: Aws) -> None:
    row = ["Curves", "A", {"id": "a", "label": "the operand", "visible": False}]
    cloudwatch = deploy(aws, "curves", metric([{"expression": "a * 2", "label": "twice"}], row))
    cloudwatch.put_metric_data(Namespace="Curves", MetricData=[{"MetricName": "A", "Value": 3}])
    (widget,) = dashboards.widgets(cloudwatch, "curves")
    (curve,) = dashboards.read(cloudwatch, widget, START, datetime.now(UTC))
    assert (curve.label, curve.values) == ("twice", (6,))


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (metric(["N", "A"], ["...", "SD"]), "cannot read the metric"),
        (metric(["N", "A", {"id": "Upper"}]), "takes no id 'Upper'"),
        ({"type": "log", "properties": {}}, "a widget of type log"),
    ],
)
def test_what_cannot_be_read_is_not_passed_over(
    aws: Aws, item: dict[str, Any], problem: str
) -> None:
    cloudwatch = deploy(aws, "unreadable", item)
    with pytest.raises(RehearsalError, match=problem):
        dashboards.widgets(cloudwatch, "unreadable")


def test_every_curve_has_to_show_something(
    deployed: Aws, article: Experiment, tmp_path: Path
) -> None:
    log = tmp_path / "dashboards.txt"
    with pytest.raises(RehearsalError, match=r"shows nothing: .*Figure 3.* and 169 more"):
        checks.dashboards_show(deployed, "article", START, log)

    publish(deployed, article, ("counting", "SD", TIME_PER_OUTPUT_TOKEN.name))
    with pytest.raises(RehearsalError) as caught:
        checks.dashboards_show(deployed, "article", START, log)
    assert str(caught.value).startswith(
        "shows nothing: article-comparison: Speed-up of every test case: time per output token, "
        "Base over SD: counting; counting (structured): Time per output token: SD p50; "
        "counting (structured): Speed-up (Base over SD): counting; see "
    )

    publish(deployed, article)
    found = checks.dashboards_show(deployed, "article", START, log)
    assert found.startswith("172 curves in 84 widgets all show values (6 widgets of node")
    lines = log.read_text().splitlines()
    assert "counting (structured): Speed-up (Base over SD) | counting | 4" in lines
    assert f"counting (structured): {TTFT.title} | SD p50 | 0.5" in lines


def test_without_dashboards_there_is_nothing_to_see(aws: Aws, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="shows nothing: any dashboard"):
        checks.dashboards_show(aws, "nobody", START, tmp_path / "dashboards.txt")


def test_the_bucket_has_to_hold_the_run(deployed: Aws, tmp_path: Path) -> None:
    s3, bucket = deployed.client("s3"), "article-models-123456789012-us-east-2"
    run = tmp_path / "run-1"
    (run / "llmperf").mkdir(parents=True)
    for name in ("ledger.jsonl", "llmperf/a b.json"):
        (run / name).write_text(name)
        s3.put_object(Bucket=bucket, Key=f"results/run-1/{name}", Body=name)
    assert checks.bucket_holds(deployed, bucket, run).startswith("2 files, all the same")

    (run / "ledger.jsonl").write_text("longer by now")
    (run / "report.html").write_text("new")
    s3.put_object(Bucket=bucket, Key="results/run-1/stale", Body="")
    with pytest.raises(RehearsalError) as caught:
        checks.bucket_holds(deployed, bucket, run)
    assert str(caught.value) == (
        f"s3://{bucket}: report.html is missing; stale is in the bucket alone; ledger.jsonl differs"
    )
