"""The stacks of variants that are measured one by one: a sweep's, and those of jobs."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from charts.indexes import run_id
from charts.names import indexed_job
from experiment.variants import variants
from tests.matrix import SWEEP, VANILLA
from tests.stacks.templates import granted, statements, widgets
from tests.synthesis import Synthesised


@pytest.fixture(params=[SWEEP, VANILLA])
def isolated(
    request: pytest.FixtureRequest, of_matrix: Callable[[str], Synthesised]
) -> Synthesised:
    return of_matrix(request.param)


def test_one_role_does_all_and_there_is_no_other(isolated: Synthesised) -> None:
    account = "Sweep" if isolated.experiment.sweep else "Offline"
    expected = {
        (account, "s3:GetObject", f"{prefix}/*") for prefix in ("models", "compiled", "results")
    }
    expected |= {
        (account, f"s3:{action}", "results/*") for action in ("PutObject", "AbortMultipartUpload")
    }
    assert {each for each in granted(isolated) if each[0] == account} == expected
    accounts = {o["metadata"]["name"] for o in isolated.objects("ServiceAccount")}
    identities = {
        identity["Properties"]["ServiceAccount"]
        for _, identity in isolated.resources("AWS::EKS::PodIdentityAssociation")
    }
    roles = {role.lower() for role, _ in statements(isolated)}
    assert roles == accounts == identities == {"prepare", account.lower()}
    conditions = [s["Condition"] for _, s in statements(isolated) if s["Sid"] == "PublishMetrics"]
    namespaces = [{"StringEquals": {"cloudwatch:namespace": "Qwen/LLMPerf"}}]
    assert conditions == (namespaces if account == "Sweep" else [])


def test_outputs_are_about_indexes(isolated: Synthesised) -> None:
    outputs = isolated.template("serving")["Outputs"]
    commands = {name: json.dumps(outputs[name]["Value"]) for name in outputs if "Command" in name}
    names = ("Kubeconfig", "Watch", "Preparation", "Indexes", "Index", "Results", "Again")
    assert [*commands] == [f"Command{number}{name}" for number, name in enumerate(names, 1)]
    for name in ("Command4Indexes", "Command5Index", "Command7Again"):
        assert f"--selector app={indexed_job(isolated.experiment)}" in commands[name]
    assert f"/results/{run_id(isolated.experiment)}/" in commands["Command6Results"]
    streams = max(10, 1 + 4 * len(variants(isolated.experiment)))
    assert f"--max-log-requests {streams} " in commands["Command3Preparation"]


def test_variants_of_a_sweep_are_drawn_over_the_time_range(
    of_matrix: Callable[[str], Synthesised],
) -> None:
    """They are measured one after the other, so no curve would meet its baseline's."""
    drawn = [*widgets(of_matrix(SWEEP).template("observability"))]
    graphs = [w["properties"] for w in drawn if w["type"] == "metric"]
    assert {graph["view"] for graph in graphs} == {"bar", "singleValue"}
    assert all(graph["setPeriodToTimeRange"] for graph in graphs)
    # Jobs publish no metric.
    assert not [*widgets(of_matrix(VANILLA).template("observability"))]


def test_no_alarm_waits_for_variants_that_do_not_stand(isolated: Synthesised) -> None:
    alarms = [a["Properties"]["AlarmName"] for _, a in isolated.resources("AWS::CloudWatch::Alarm")]
    kinds = ("ecc-errors", "guard-drops", "guard-fails", "node-idle")
    assert sorted(alarms) == [f"{isolated.experiment.name}-{kind}" for kind in kinds]
