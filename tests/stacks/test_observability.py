"""Dashboards and alarms: all that is published, and CloudWatch's quotas.

Which arithmetic the widgets do is in the snapshots of dashboards.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from experiment import Experiment
from experiment.cost import guard_hours
from experiment.rules.measurement import MOST_CELLS
from experiment.variants import variants
from spectap import metrics as catalogue
from spectap import names
from stacks.observability import ObservabilityStack
from tests.matrix import LADDER, SWEEP, VANILLA, numbered_cases
from tests.stacks.templates import widgets
from tests.synthesis import Of, Synthesised, Vary


@pytest.mark.parametrize("name", ["article", SWEEP, LADDER])
def test_everything_that_is_published_is_drawn_and_nothing_else(name: str, of_matrix: Of) -> None:
    synthesised = of_matrix(name)
    experiment, points = synthesised.experiment, synthesised.experiment.benchmark.points
    shared = names.namespace(experiment.models.target.id), experiment.name
    published = {
        (*shared, metric.name, v.name, c.name, point.name if len(points) > 1 else None)
        for metric in (*catalogue.METRICS, *catalogue.TOTALS)
        for v in variants(experiment)
        for c in experiment.benchmark.test_cases
        for point in points
        if metric is not catalogue.TOKENS_PER_STEP or experiment.shows_steps(c)
    }
    fields = ("namespace", "Experiment", "name", "Variant", "TestCase", "Load")
    graphs = _graphs(synthesised.template("observability"))
    metrics = [_metric(row) for graph in graphs for row in graph["metrics"] if len(row) > 1]
    assert {tuple(metric.get(field) for field in fields) for metric in metrics} == published


@pytest.mark.parametrize(("windows", "cases", "points"), [(4, 30, 1), (1, 1, 75)])
def test_quotas_are_kept_with_most_cells(
    variation: Vary, windows: int, cases: int, points: int
) -> None:
    """500 widgets and 2,500 metrics a dashboard, 500 metrics a graph, 1 MB a template."""
    experiment = variation(
        {
            "name": "a-name-of-20-letters",
            "benchmark.concurrency": None,
            "benchmark.requests": 100,
            "benchmark.load": [
                {"rate": n / 8, "seconds": 60} if n % 5 == 4 else {"concurrency": n + 1}
                for n in range(points)
            ],
            "serving.devices": 1,
            "serving.tensor_parallel": 4,
            "speculation": [
                {"name": f"variant-{n}-of-xxxxxxx", "mode": "fused", "num_speculative_tokens": n}
                for n in range(2, 2 + windows)
            ],
            "benchmark.test_cases": (
                numbered_cases(cases) if cases > 1 else [{"name": "x" * 40, "set": "bfcl"}]
            ),
        }
    )
    assert len(variants(experiment)) * cases * points == MOST_CELLS
    template = _template(experiment)
    assert len(json.dumps(template, indent=1)) < 1_000_000
    for logical_id, resource in template["Resources"].items():
        if drawn := [*widgets({"Resources": {logical_id: resource}}, logical_id)]:
            metrics = [len(widget["properties"].get("metrics", ())) for widget in drawn]
            assert len(drawn) <= 500
            assert max(metrics) <= 500
            assert sum(metrics) <= 2500


@pytest.mark.parametrize("name", [SWEEP, VANILLA])
def test_isolated_variants_are_drawn_over_the_time_range_and_have_no_alarm(
    name: str, of_matrix: Of
) -> None:
    """They are measured one after the other, so no curve would meet its baseline's."""
    isolated = of_matrix(name)
    kinds = {"ecc-errors", "guard-late", "node-idle"}
    expected = {f"{isolated.experiment.name}-{kind}" for kind in kinds}
    assert {alarm["AlarmName"] for _, alarm in _alarms(isolated)} == expected
    graphs = [*_graphs(isolated.template("observability"))]
    assert {graph["view"] for graph in graphs} <= {"bar", "singleValue"}
    assert all(graph["setPeriodToTimeRange"] for graph in graphs)
    assert bool(graphs) == (name == SWEEP)  # jobs publish no metric


def test_nodes_that_outlive_their_guard_raise_an_alarm(of_matrix: Of) -> None:
    for synthesised in map(of_matrix, ("article", SWEEP)):
        ((_, alarm),) = [each for each in _alarms(synthesised) if each[0].startswith("GuardLate")]
        (metric,) = (each["MetricStat"] for each in alarm["Metrics"])
        name = metric["Metric"]["MetricName"]
        assert (name, metric["Stat"]) == ("node_neuroncore_utilization", "SampleCount")
        # Nodes that begin and end within a period are there in one more than they take.
        hours = metric["Period"] * (alarm["EvaluationPeriods"] - 2) / 3600
        assert guard_hours(synthesised.experiment) + 0.25 <= hours <= 22.5
        assert (alarm["Threshold"], alarm["TreatMissingData"]) == (0, "notBreaching")


def test_two_experiments_share_no_name_and_no_stack(of_matrix: Of) -> None:
    article, sweep = _names(of_matrix("article")), _names(of_matrix(SWEEP))
    assert len(article) > 10
    assert article.isdisjoint(sweep)
    assert "Fn::ImportValue" not in json.dumps(of_matrix("article").template("observability"))


def _names(synthesised: Synthesised) -> set[str]:
    keys = ("AlarmName", "BucketName", "BudgetName", "DashboardName", "LogGroupName", "TopicName")
    return {
        json.dumps([key, value])
        for _, resource in synthesised.resources()
        for properties in (resource.get("Properties", {}),)
        for key, value in (properties | properties.get("Budget", {})).items()
        # A name made of that of a resource is as unique as that is.
        if key in keys and not re.search('"Ref": "(?!AWS::)', json.dumps(value))
    }


def _alarms(synthesised: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    alarms = synthesised.resources("AWS::CloudWatch::Alarm")
    return ((logical_id, alarm["Properties"]) for logical_id, alarm in alarms)


def _graphs(template: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Properties of the graphs and numbers of the dashboards that compare."""
    return (w["properties"] for w in widgets(template) if w["type"] == "metric")


def _template(experiment: Experiment) -> dict[str, Any]:
    stack = ObservabilityStack(cdk.App(), experiment, None)
    return dict(Template.from_stack(stack).to_json())


def _metric(entry: list[Any]) -> dict[str, Any]:
    """``[namespace, name, dimension, value, ..., {options}]`` as a mapping."""
    namespace, name, *dimensions, options = entry
    pairs = dict(zip(dimensions[::2], dimensions[1::2], strict=True))
    return {"namespace": namespace, "name": name, **pairs, **options}
