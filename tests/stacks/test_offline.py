"""The stacks of jobs: one role, commands for indexes, bars, and words that speak of no server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from charts.indexes import run_id
from tests.matrix import VANILLA
from tests.stacks.templates import below_bucket, listed, statements
from tests.synthesis import Synthesised


@pytest.fixture(scope="module")
def jobs(of_matrix: Callable[[str], Synthesised]) -> Synthesised:
    """Vanilla and its baseline."""
    return of_matrix(VANILLA)


def test_one_role_reads_what_is_compiled_and_writes_results(jobs: Synthesised) -> None:
    granted = {
        (action, below_bucket(resource))
        for role, statement in statements(jobs)
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
        # Of the stopper, see test_model_store.
        if role == "Offline" and action not in ("s3:ListBucket", "states:StartExecution")
    }
    assert granted == {
        ("s3:GetObject", "models/*"),
        ("s3:GetObject", "compiled/*"),
        ("s3:GetObject", "results/*"),
        ("s3:PutObject", "results/*"),
        ("s3:AbortMultipartUpload", "results/*"),
    }


def test_there_is_a_role_for_each_account_and_none_besides(jobs: Synthesised) -> None:
    roles = {role for role, _ in statements(jobs)}
    accounts = {account["metadata"]["name"] for account in jobs.objects("ServiceAccount")}
    identities = {
        identity["Properties"]["ServiceAccount"]
        for _, identity in jobs.resources("AWS::EKS::PodIdentityAssociation")
    }
    assert {role.lower() for role in roles} == accounts == identities == {"prepare", "offline"}


def test_outputs_are_about_indexes(jobs: Synthesised) -> None:
    outputs = jobs.template("serving")["Outputs"]
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
    for name in ("Command4Indexes", "Command5Index", "Command7Again"):
        assert "--selector app=qwen-offline" in commands[name]
    assert f"/results/{run_id(jobs.experiment)}/" in commands["Command6Results"]
    said = json.dumps([outputs[name]["Description"] for name in commands])
    assert "inference_demo" in said
    assert "vLLM" not in said
    assert not [text for text in commands.values() if "llmperf" in text or "lmeval" in text]


def test_the_nodes_alone_have_a_dashboard(jobs: Synthesised) -> None:
    dashboards = [a["Properties"] for _, a in jobs.resources("AWS::CloudWatch::Dashboard")]
    names = [dashboard["DashboardName"] for dashboard in dashboards]
    assert names == [f"{jobs.experiment.name}-nodes"]


def test_no_alarm_waits_for_variants_that_do_not_stand(jobs: Synthesised) -> None:
    alarms = [a["Properties"]["AlarmName"] for _, a in jobs.resources("AWS::CloudWatch::Alarm")]
    name = jobs.experiment.name
    assert sorted(alarms) == [
        f"{name}-{of}" for of in ("ecc-errors", "guard-drops", "guard-fails", "node-idle")
    ]
