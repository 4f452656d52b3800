"""The stacks of a sweep: one role, commands for indexes, bars, and no alarm about what is over."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from charts.indexes import run_id
from experiment.variants import variants
from tests.matrix import SWEEP
from tests.stacks.templates import below_bucket, listed, statements, widgets
from tests.synthesis import Synthesised


@pytest.fixture(scope="module")
def sweep(of_matrix: Callable[[str], Synthesised]) -> Synthesised:
    """Two windows at two batches, on two nodes."""
    return of_matrix(SWEEP)


def test_one_role_serves_measures_and_keeps(sweep: Synthesised) -> None:
    granted = {
        (action, below_bucket(resource))
        for role, statement in statements(sweep)
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
        # Of the key and the stopper, see test_model_store.
        if role == "Sweep"
        and action
        not in ("s3:ListBucket", "secretsmanager:GetSecretValue", "states:StartExecution")
    }
    assert granted == {
        ("s3:GetObject", "models/*"),
        ("s3:GetObject", "compiled/*"),
        ("s3:GetObject", "results/*"),
        ("s3:PutObject", "results/*"),
        ("s3:AbortMultipartUpload", "results/*"),
        ("cloudwatch:PutMetricData", "*"),
    }
    listing = [s["Condition"] for r, s in statements(sweep) if r == "Sweep" and s["Sid"] == "List"]
    prefixes = ["models/*", "compiled/*", "results/*"]
    assert listing == [{"StringLike": {"s3:prefix": prefixes}}]


def test_there_is_a_role_for_each_account_and_none_besides(sweep: Synthesised) -> None:
    roles = {role for role, _ in statements(sweep)}
    accounts = {account["metadata"]["name"] for account in sweep.objects("ServiceAccount")}
    identities = {
        identity["Properties"]["ServiceAccount"]
        for _, identity in sweep.resources("AWS::EKS::PodIdentityAssociation")
    }
    assert {role.lower() for role in roles} == accounts == identities == {"prepare", "sweep"}


def test_metrics_go_into_the_benchmarks_own_namespace_only(sweep: Synthesised) -> None:
    (condition,) = (s["Condition"] for _, s in statements(sweep) if s["Sid"] == "PublishMetrics")
    assert condition == {"StringEquals": {"cloudwatch:namespace": "Qwen/LLMPerf"}}


def test_outputs_are_about_indexes(sweep: Synthesised) -> None:
    outputs = sweep.template("serving")["Outputs"]
    commands = {name: json.dumps(outputs[name]["Value"]) for name in outputs if "Command" in name}
    assert [*commands] == [
        "Command1Kubeconfig",
        "Command2Watch",
        "Command3Preparation",
        "Command4Indexes",
        "Command5Index",
        "Command6Results",
        "Command7Again",
    ]
    assert "--max-log-requests 25 " in commands["Command3Preparation"]
    assert f"/results/{run_id(sweep.experiment)}/" in commands["Command6Results"]
    assert not [text for text in commands.values() if "llmperf" in text or "lmeval" in text]


def test_variants_are_drawn_over_the_time_range(sweep: Synthesised) -> None:
    """They are measured one after the other, so no curve would meet its baseline's."""
    graphs = [w["properties"] for w in widgets(sweep) if w["type"] == "metric"]
    assert {graph["view"] for graph in graphs} == {"bar", "singleValue"}
    assert all(graph["setPeriodToTimeRange"] for graph in graphs)
    shown = json.dumps(graphs)
    assert all(f'"{variant.name}"' in shown for variant in variants(sweep.experiment))
    (first, *_) = (w["properties"]["markdown"] for w in widgets(sweep) if w["type"] == "text")
    assert "a time range that holds the whole sweep" in first


def test_no_alarm_waits_for_variants_that_do_not_stand(sweep: Synthesised) -> None:
    alarms = [a["Properties"]["AlarmName"] for _, a in sweep.resources("AWS::CloudWatch::Alarm")]
    assert sorted(alarms) == [
        *("a-sweep-ecc-errors", "a-sweep-guard-drops", "a-sweep-guard-fails", "a-sweep-node-idle")
    ]
