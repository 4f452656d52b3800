"""What has been spent, and how everything is on one screen; test_killed.py looks at it half-way."""

import datetime
from typing import Any, Final

import pytest

from experiment.cost import CostGroup, cost
from operations import status
from operations.account import Deployment
from operations.spent import spent
from tests.operations.api import Objects, container, ended, meta, pod
from tests.operations.conftest import at, with_nodes
from tests.operations.fake_aws import FakeAws
from tests.operations.fake_aws.eks import NodeGroup


def screen(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert status.show(deployment) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]]


def test_a_cluster_that_cannot_be_reached(
    aws: FakeAws,
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = screen(deployment, capsys)
    assert lines == ["stacks nothing is deployed", "cost nothing is running"]
    monkeypatch.setenv("KUBERNETES_API", "http://127.0.0.1:9")
    with_nodes(aws, 1)
    printed = "\n".join(screen(deployment, capsys))
    assert "cluster not known (docs/runbook.md, Reach a private API): Kubernetes: the" in printed
    assert "nodes trainium 1 asked for" in printed
    assert "guard trainium none: its nodes run until `make stop" in printed


def test_what_failed_and_what_may_not_be_asked(
    aws: FakeAws, deployment: Deployment, api: Objects, capsys: pytest.CaptureFixture[str]
) -> None:
    with_nodes(aws)
    gone = {"type": "Failed", "status": "True", "message": "Job has reached the limit"}
    indexed = {"completionMode": "Indexed", "completions": 4}
    died = container("vllm", {"terminated": ended(3)})
    api.lists = {
        "jobs": [
            {"metadata": meta("compile-1a2b"), "spec": {}, "status": {"conditions": [gone]}},
            {
                "metadata": meta("sweep-1a2b"),
                "spec": indexed,
                "status": {"completedIndexes": "0,2", "failedIndexes": "1"},
            },
        ],
        "pods": [pod("qwen-llmperf", {"app": "qwen-llmperf"}, "Failed", died)],
    }
    for manifest in api.lists["jobs"]:
        manifest["spec"] |= {"template": {"spec": {"containers": [{"name": "c"}]}}}
    lines = screen(deployment, capsys)
    assert "jobs compile failed: Job has reached the limit" in lines
    assert "sweep complete: 0,2 of 4, failed: 1; waits for a pod" in lines
    assert "run qwen-llm failed: vllm ended with status 3 (Error)" in lines
    api.refused.add("jobs")
    lines = screen(deployment, capsys)
    assert "jobs not known: Kubernetes: 403 Forbidden" in lines
    assert "run qwen-llm failed: vllm ended with status 3 (Error)" in lines
    assert all(request.startswith("GET ") for request in api.requests)


NOON: Final = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)
PRICE: Final = 35.7608
VOLUME: Final = 100 * 0.08 / 730


def ago(hours: float) -> datetime.datetime:
    return NOON - datetime.timedelta(hours=hours)


def activity(description: str, hours: float, status: str = "Successful") -> dict[str, Any]:
    begun = {"Description": description, "StartTime": ago(hours), "StatusCode": status}
    return begun | ({"EndTime": ago(hours)} if status in ("Successful", "Failed") else {})


def deployed(aws: FakeAws) -> None:
    """The network for 3 hours, the cluster for 2, and a group of nodes."""
    aws.cloudformation.add("network").created = ago(3)
    aws.cloudformation.add("cluster").created = ago(2)
    aws.cloudformation.add("trainium", node_groups={"trainium": "nodes"})
    aws.eks.groups["nodes"] = NodeGroup("nodes")


def test_without_nodes_it_is_what_an_idle_experiment_costs(
    aws: FakeAws, deployment: Deployment
) -> None:
    costs = spent(deployment, NOON)
    assert (costs.usd, costs.usd_per_hour, costs.since, costs.parts) == (0, 0, None, ())
    deployed(aws)
    costs = spent(deployment, NOON)
    assert [part.hours for part in costs.parts] == [3, 2, 0]
    assert costs.since == ago(3)
    assert costs.usd == pytest.approx(sum(part.usd for part in costs.parts[:2]))
    assert costs.usd_per_hour == pytest.approx(cost(deployment.experiment).idle_usd_per_hour)


LAUNCH, END = "Launching a new EC2 instance: ", "Terminating EC2 instance: "
NO_CAPACITY: Final = activity(f"{LAUNCH} Status Reason: We do not have", 0.5, "Failed")
FIRST: Final = activity(f"{LAUNCH}i-01", 1)
SECOND: Final = activity(f"{LAUNCH}i-02", 0.5)


@pytest.mark.parametrize(
    ("activities", "running", "created", "hours"),
    [
        # One that went costs its hours and no more.
        ([activity(f"{END}i-01", 0.25), FIRST, SECOND], ["i-02"], 1, 0.75 + 0.5),
        ([NO_CAPACITY, SECOND | {"StatusCode": "Cancelled"}], [], 1, 0),
        ([activity(f"{END}i-01", 0.1, "InProgress"), FIRST], ["i-01"], 1, 1),  # still paid for
        # One whose launch is forgotten counts for six weeks.
        ([], ["i-01"], 2000, 6 * 7 * 24),
    ],
)
def test_nodes_cost_their_hours(
    aws: FakeAws,
    deployment: Deployment,
    activities: list[dict[str, Any]],
    running: list[str],
    created: float,
    hours: float,
) -> None:
    deployed(aws)
    aws.facts.activities, aws.facts.scaling_created = activities, ago(created)
    aws.facts.scaled = [{"InstanceId": instance} for instance in running]
    (trainium,) = (p for p in spent(deployment, NOON).parts if p.group is CostGroup.TRAINIUM)
    assert (trainium.running, trainium.hours) == (len(running), hours)
    assert trainium.usd == pytest.approx(hours * (PRICE + VOLUME))
    assert trainium.usd_per_hour == pytest.approx(len(running) * (PRICE + VOLUME))


def test_a_capacity_block_is_paid_for_whatever_is_used(aws: FakeAws) -> None:
    bought = {"purchase": "capacity-block", "reservation_id": "cr-0123456789abcdef0"}
    deployed(aws)
    costs = spent(at({f"capacity.{field}": value for field, value in bought.items()}), NOON)
    assert costs.amount == f"{costs.usd:.2f} USD used (the Capacity Block is paid as a whole)"
