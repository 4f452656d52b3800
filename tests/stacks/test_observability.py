from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmark import metrics as catalogue
from benchmark import names
from tests.synthesis import Synthesised

PER_CASE = {
    "EndToEndLatency",
    "TimePerOutputToken",
    "InterTokenLatency",
    "TTFT",
    "RequestOutputThroughput",
    "TokensPerStep",
}


def test_every_test_case_has_base_and_sd_side_by_side(synthesised: Synthesised) -> None:
    shown = set()
    for widget in _graphs(synthesised, "Comparison"):
        metrics = [_metric(m) for m in widget["metrics"] if len(m) > 2]
        variants = {m["Variant"] for m in metrics}
        assert variants == {"Base", "SD"}, widget["title"]
        if len(metrics) == 2:
            shown |= {(m["TestCase"], m["name"]) for m in metrics if m.get("visible", True)}
    for case in synthesised.experiment.benchmark.test_cases:
        assert {name for shown_case, name in shown if shown_case == case.name} == PER_CASE


def test_figures_of_the_article_have_four_curves(synthesised: Synthesised) -> None:
    figures = [w for w in _graphs(synthesised, "Comparison") if w["title"].startswith("Figure")]
    assert [figure["title"][:9] for figure in figures] == ["Figure 3.", "Figure 4.", "Figure 5."]
    for figure in figures:
        labels = [_metric(m)["label"] for m in figure["metrics"]]
        assert labels == [
            "structured, Base",
            "structured, SD",
            "open-ended, Base",
            "open-ended, SD",
        ]


def test_metrics_are_those_the_benchmark_publishes(synthesised: Synthesised) -> None:
    published = {metric.name for metric in catalogue.METRICS}
    for widget in _graphs(synthesised, "Comparison"):
        for metric in (_metric(m) for m in widget["metrics"] if len(m) > 2):
            assert metric["namespace"] == names.NAMESPACE
            assert metric["name"] in published


def test_speed_up_is_base_over_sd(synthesised: Synthesised) -> None:
    expressions = [
        m[0]["expression"]
        for widget in _graphs(synthesised, "Comparison")
        if widget["title"].startswith("Speed-up (")
        for m in widget["metrics"]
        if "expression" in m[0]
    ]
    cases = synthesised.experiment.benchmark.test_cases
    assert expressions == [
        f"base_{c.name.replace('-', '_')} / sd_{c.name.replace('-', '_')}" for c in cases
    ]


def test_cost_charges_each_service_its_half_of_the_node(synthesised: Synthesised) -> None:
    (widget, *_) = (
        w for w in _graphs(synthesised, "Comparison") if w["title"].startswith("USD per million")
    )
    expression = next(m[0]["expression"] for m in widget["metrics"] if "expression" in m[0])
    factor = float(expression.partition(" ")[0])
    # At one token a second for the whole service: half of 35.7608 USD an hour, for a million of
    # seconds.
    assert factor == pytest.approx(35.7608 / 2 / 3600 * 1e6, rel=1e-4)
    assert expression.endswith("* 4)")


def test_nodes_dashboard_reads_container_insights_by_cluster(synthesised: Synthesised) -> None:
    metrics = [m for w in _graphs(synthesised, "Nodes") for m in w["metrics"]]
    assert len(metrics) >= 10
    for metric in metrics:
        assert metric[0] == "ContainerInsights"
        assert metric[1].startswith("node_")
        assert metric[2:4] == ["ClusterName", "article"]


def test_alarms_tell_the_topic_and_stay_quiet_without_data(synthesised: Synthesised) -> None:
    alarms = {a["Properties"]["AlarmName"]: a["Properties"] for _, a in _alarms(synthesised)}
    assert set(alarms) == {
        "article-node-idle",
        "article-ecc-errors",
        "article-speculation-lost-its-benefit",
    }
    for alarm in alarms.values():
        assert alarm["TreatMissingData"] == "notBreaching"
        assert len(alarm["AlarmActions"]) == 1


def test_idle_alarm_waits_as_long_as_the_experiment_says(synthesised: Synthesised) -> None:
    (alarm,) = (
        a["Properties"] for _, a in _alarms(synthesised) if "idle" in a["Properties"]["AlarmName"]
    )
    minutes = alarm["EvaluationPeriods"] * alarm["Metrics"][0]["MetricStat"]["Period"] / 60
    assert minutes == synthesised.experiment.alerts.idle_minutes


def test_topic_is_encrypted_and_alarms_and_budgets_may_publish(synthesised: Synthesised) -> None:
    observability = synthesised.template("observability")["Resources"].values()
    (topic,) = (r for r in observability if r["Type"] == "AWS::SNS::Topic")
    assert "KmsMasterKeyId" in topic["Properties"]
    for type_ in ("AWS::SNS::TopicPolicy", "AWS::KMS::Key"):
        (resource,) = (r for r in observability if r["Type"] == type_)
        text = json.dumps(resource["Properties"])
        assert '"cloudwatch.amazonaws.com"' in text
        assert '"budgets.amazonaws.com"' in text


def test_outputs_print_the_dashboards_addresses(synthesised: Synthesised) -> None:
    outputs = synthesised.template("observability")["Outputs"]
    for dashboard in ("Comparison", "Nodes"):
        assert "#dashboards/dashboard/" in json.dumps(outputs[f"{dashboard}Dashboard"]["Value"])


def test_needs_no_other_stack(synthesised: Synthesised) -> None:
    assert "Fn::ImportValue" not in json.dumps(synthesised.template("observability"))


def _alarms(synthesised: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    return synthesised.resources("AWS::CloudWatch::Alarm")


def _graphs(synthesised: Synthesised, dashboard: str) -> Iterator[dict[str, Any]]:
    """Properties of the graphs of one dashboard."""
    resources = synthesised.template("observability")["Resources"]
    (body,) = (
        resource["Properties"]["DashboardBody"]
        for logical_id, resource in resources.items()
        if resource["Type"] == "AWS::CloudWatch::Dashboard" and logical_id.startswith(dashboard)
    )
    text = body if isinstance(body, str) else "".join(map(str, body["Fn::Join"][1]))
    for widget in json.loads(text)["widgets"]:
        if widget["type"] == "metric":
            yield widget["properties"]


def _metric(entry: list[Any]) -> dict[str, Any]:
    """``[namespace, name, dimension, value, ..., {options}]`` as a mapping."""
    namespace, name, *dimensions, options = entry
    pairs = dict(zip(dimensions[::2], dimensions[1::2], strict=True))
    return {"namespace": namespace, "name": name, **pairs, **options}
