"""Dashboards and alarms: one curve a variant, the arithmetic, and CloudWatch's quotas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from deployment import guard
from experiment import Experiment
from experiment.rules.measurement import MOST_CELLS
from experiment.runtimes import Workload
from experiment.variants import variants
from spectap import metrics as catalogue
from spectap import names
from stacks.observability import ObservabilityStack
from tests.matrix import SWEEP, THREE_VARIANTS
from tests.stacks.templates import outputs
from tests.synthesis import Synthesised


def _catalogue(experiment: Experiment) -> list[catalogue.Metric]:
    """What is published: a job has no figure of llmperf."""
    jobs = experiment.workload is Workload.JOB
    return [m for m in catalogue.METRICS if not (jobs and m.name == "InterTokenLatency")]


def test_everything_that_is_published_is_drawn_and_nothing_else(each: Synthesised) -> None:
    """The dimension Load is there where there are several load points."""
    experiment = each.experiment
    published = {
        (each.name, variant.name, case.name, load)
        for each in (*_catalogue(experiment), *catalogue.TOTALS)
        for variant in variants(experiment)
        for case in experiment.benchmark.test_cases
        for load in _loads(experiment)
        if each is not catalogue.TOKENS_PER_STEP or experiment.shows_steps(case)
    }
    drawn = {(m["name"], m["Variant"], m["TestCase"], m.get("Load")) for m in _measured(each)}
    assert drawn == published


def test_metrics_are_those_the_benchmark_publishes(each: Synthesised) -> None:
    published = {metric.name for metric in (*catalogue.METRICS, *catalogue.TOTALS)}
    for metric in _measured(each):
        target = each.experiment.models.target.id
        assert metric["namespace"] == names.namespace(target)
        assert metric["name"] in published
        assert metric["Experiment"] == each.experiment.name


def test_speed_up_is_the_baseline_over_the_variant(variation: Callable[..., Experiment]) -> None:
    """Each variant is held against the baseline of its own batch."""
    experiment = variation(
        {
            "speculation": [
                {"name": "SD", "mode": "fused", "num_speculative_tokens": 7},
                {"name": "SD-8", "mode": "fused", "num_speculative_tokens": 7, "batch": 8},
            ],
            "serving.devices": 4,
            "serving.tensor_parallel": 16,
            "capacity.nodes": 1,
        }
    )
    speed_ups = [
        w
        for w in _widgets(_template(experiment))
        if w["title"] == "Decoding speed-up over the baseline"
    ]
    assert len(speed_ups) == len(experiment.benchmark.test_cases)
    for widget in speed_ups:
        operand = {m[-1]["id"]: _metric(m) for m in widget["metrics"] if len(m) > 1}
        quotients = [m[0] for m in widget["metrics"] if len(m) == 1]
        compared = {}
        for quotient in quotients:
            above, below = (operand[name] for name in quotient["expression"].split(" / "))
            assert above["TestCase"] == below["TestCase"]
            assert above["name"] == below["name"] == catalogue.TIME_PER_OUTPUT_TOKEN.name
            compared[quotient["label"]] = (above["Variant"], below["Variant"])
        assert compared == {
            "SD over Base": ("Base", "SD"),
            "SD-8 over Base-batch-8": ("Base-batch-8", "SD-8"),
        }


def test_cost_is_the_price_of_the_request_time_over_the_tokens_served(each: Synthesised) -> None:
    """Of each variant in each test case, over the whole time range."""
    experiment = each.experiment
    usd = experiment.capacity.price.usd_per_hour / 3600 * 1e6  # for a million seconds
    share = experiment.serving.devices / experiment.capacity.instance.devices
    costs = []
    for widget in _graphs(each, "Comparison"):
        if not widget["title"].startswith("USD per million"):
            continue
        assert widget["view"] == "singleValue"
        assert widget["setPeriodToTimeRange"]
        operand = {m[-1]["id"]: _metric(m) for m in widget["metrics"] if len(m) > 1}
        for (quotient,) in (m for m in widget["metrics"] if len(m) == 1):
            price, time, tokens = re.split(r" [*/] ", quotient["expression"])
            assert quotient["expression"] == f"{price} * {time} / {tokens}"
            above, below = operand[time], operand[tokens]
            load = above.get("Load", experiment.benchmark.points[0].name)
            in_flight = int(load.removeprefix("concurrency-"))
            assert float(price) == pytest.approx(usd * share / in_flight, rel=1e-4)
            assert (above["name"], below["name"]) == ("RequestTime", "ServedTokens")
            assert above["stat"] == below["stat"] == "Sum"
            for dimension in ("Experiment", "Variant", "TestCase", "Load"):
                assert above.get(dimension) == below.get(dimension)
            assert quotient["label"].split(", ")[-1] == above["Variant"]
            costs.append((above["TestCase"], load, above["Variant"]))
    assert costs == [
        (case.name, point.name, variant.name)
        for case in experiment.benchmark.test_cases
        for point in experiment.benchmark.points
        if not point.open
        for variant in variants(experiment)
    ]


@pytest.mark.parametrize(("windows", "cases", "points"), [(4, 30, 1), (1, 1, 75)])
def test_quotas_are_kept_with_most_cells(
    variation: Callable[..., Experiment], windows: int, cases: int, points: int
) -> None:
    changes: dict[str, Any] = {
        "name": "a-name-of-20-letters",
        "benchmark.concurrency": None,
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
        "benchmark.test_cases": [
            {
                "name": f"case-{n:02}-{'x' * 32}",
                "line": f"{n} " + "y" * 2000,
                "structure": ("structured", "open-ended")[n % 2],
                "headline": n < 2,
            }
            for n in range(cases)
        ],
    }
    if cases == 1:
        changes["benchmark.test_cases"] = [{"name": f"case-{'x' * 35}", "set": "bfcl"}]
    experiment = variation(changes)
    assert len(variants(experiment)) * cases * points == MOST_CELLS
    _assert_quotas(_template(experiment))


def test_each_variant_has_an_alarm_on_its_speed_up(of_matrix: Any) -> None:
    three = of_matrix(THREE_VARIANTS)
    alarms = {
        a["Properties"]["AlarmName"]: a["Properties"]
        for _, a in _alarms(three)
        if "lost-its-benefit" in a["Properties"]["AlarmName"]
    }
    prefix = "three-variants-speculation-lost-its-benefit"
    assert set(alarms) == {f"{prefix}-k3", f"{prefix}-K-7"}
    for name, alarm in alarms.items():
        variant = name.removeprefix(f"{prefix}-")
        assert f"{variant} decodes less than 1.2x as fast as Base" in alarm["AlarmDescription"]
        operands = [m["MetricStat"]["Metric"] for m in alarm["Metrics"] if "MetricStat" in m]
        assert [_dimensions(metric)["Variant"] for metric in operands] == ["Base", variant]
        assert {_dimensions(metric)["Experiment"] for metric in operands} == {"three-variants"}


def test_a_guard_that_fails_twice_in_half_an_hour_raises_an_alarm(synthesised: Synthesised) -> None:
    alarms = [a["Properties"] for id_, a in _alarms(synthesised) if id_.startswith("Guard")]
    group = synthesised.template("trainium")["Resources"][
        outputs(synthesised, "trainium")["GuardGroup"]["Ref"]
    ]
    dimension = {"Name": "ScheduleGroup", "Value": group["Properties"]["Name"]}
    assert {a["MetricName"] for a in alarms} == {"TargetErrorCount", "InvocationDroppedCount"}
    for alarm in alarms:
        assert alarm["Dimensions"] == [dimension]
        assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (2, 1)
        assert alarm["Period"] >= 2 * guard.INTERVAL.seconds


def test_needs_no_other_stack(synthesised: Synthesised) -> None:
    assert "Fn::ImportValue" not in json.dumps(synthesised.template("observability"))


def test_two_experiments_share_no_name(of_matrix: Callable[[str], Synthesised]) -> None:
    article, sweep = _names(of_matrix("article")), _names(of_matrix(SWEEP))
    assert len(article) > 10
    assert article.isdisjoint(sweep)


def _names(synthesised: Synthesised) -> set[str]:
    """The names that the stacks give to what they make."""
    keys = ("AlarmName", "BucketName", "BudgetName", "DashboardName", "LogGroupName", "TopicName")
    return {
        json.dumps([key, value])
        for _, resource in synthesised.resources()
        for properties in (resource.get("Properties", {}),)
        for key, value in (properties | properties.get("Budget", {})).items()
        # A name made of that of a resource is as unique as that is.
        if key in keys and not re.search('"Ref": "(?!AWS::)', json.dumps(value))
    }


def _loads(experiment: Experiment) -> list[str | None]:
    """Values of the dimension Load; None where it is left out."""
    points = experiment.benchmark.points
    return [point.name for point in points] if len(points) > 1 else [None]


def _alarms(synthesised: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    return synthesised.resources("AWS::CloudWatch::Alarm")


def _graphs(synthesised: Synthesised, dashboard: str) -> Iterator[dict[str, Any]]:
    """Properties of the graphs of the dashboards whose ids begin with ``dashboard``."""
    yield from _widgets(synthesised.template("observability"), dashboard)


def _widgets(template: dict[str, Any], dashboard: str = "Comparison") -> Iterator[dict[str, Any]]:
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::CloudWatch::Dashboard" and logical_id.startswith(dashboard):
            for widget in json.loads(_body(resource["Properties"]["DashboardBody"]))["widgets"]:
                if widget["type"] == "metric":
                    yield widget["properties"]


def _assert_quotas(template: dict[str, Any]) -> None:
    """500 widgets and 2,500 metrics a dashboard, 500 metrics a graph, 1 MB a template."""
    assert len(json.dumps(template, indent=1)) < 1_000_000
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            widgets = json.loads(_body(resource["Properties"]["DashboardBody"]))["widgets"]
            metrics = [len(widget["properties"].get("metrics", ())) for widget in widgets]
            assert len(widgets) <= 500
            assert max(metrics) <= 500
            assert sum(metrics) <= 2500


def _body(body: Any) -> str:
    return body if isinstance(body, str) else "".join(map(str, body["Fn::Join"][1]))


def _template(experiment: Experiment) -> dict[str, Any]:
    app = cdk.App()
    stack = ObservabilityStack(app, "observability", experiment=experiment)
    return dict(Template.from_stack(stack).to_json())


def _metric(entry: list[Any]) -> dict[str, Any]:
    """``[namespace, name, dimension, value, ..., {options}]`` as a mapping."""
    namespace, name, *dimensions, options = entry
    pairs = dict(zip(dimensions[::2], dimensions[1::2], strict=True))
    return {"namespace": namespace, "name": name, **pairs, **options}


def _measured(synthesised: Synthesised) -> Iterator[dict[str, Any]]:
    """The rows of the comparison dashboards that are metrics, not expressions."""
    for widget in _graphs(synthesised, "Comparison"):
        yield from (_metric(row) for row in widget["metrics"] if len(row) > 1)


def _dimensions(metric: dict[str, Any]) -> dict[str, str]:
    return {dimension["Name"]: dimension["Value"] for dimension in metric["Dimensions"]}
