"""What an experiment has cost so far. The answers of AWS are checked against boto3's models."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Final

import pytest

from deployment.account import Deployment
from deployment.spent import Spent, spent
from experiment.cost import CostGroup, cost
from experiment.schema import Purchase
from tests.deployment.fake_aws import FakeAws
from tests.deployment.fake_aws.eks import NodeGroup

NOON: Final = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)
PRICE: Final = 35.7608
VOLUME: Final = 500 * 0.08 / 730


def ago(hours: float) -> datetime.datetime:
    return NOON - datetime.timedelta(hours=hours)


def launch(instance: str, hours: float, status: str = "Successful") -> dict[str, Any]:
    return _activity(f"Launching a new EC2 instance: {instance}", hours, status)


def end(instance: str, hours: float, status: str = "Successful") -> dict[str, Any]:
    return _activity(f"Terminating EC2 instance: {instance}", hours, status)


def _activity(description: str, hours: float, status: str) -> dict[str, Any]:
    activity = {"Description": description, "StartTime": ago(hours), "StatusCode": status}
    return activity | ({"EndTime": ago(hours)} if status in ("Successful", "Failed") else {})


def deployed(aws: FakeAws, kind: str = "trainium") -> None:
    """The network for 3 hours, the cluster for 2, and a group of nodes."""
    aws.cloudformation.add("network").created = ago(3)
    aws.cloudformation.add("cluster").created = ago(2)
    aws.cloudformation.add("trainium", node_groups={kind: "nodes"})
    aws.eks.groups["nodes"] = NodeGroup("nodes")


def part(costs: Spent, group: CostGroup) -> Any:
    return next(part for part in costs.parts if part.group is group)


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


NO_CAPACITY: Final = "Launching a new EC2 instance.  Status Reason: We do not have sufficient ..."


@pytest.mark.parametrize(
    ("activities", "running", "created", "hours"),
    [
        ([launch("i-01", 0.5)], ["i-01"], 1, 0.5),
        # One that went costs its hours and no more.
        ([end("i-01", 0.25), launch("i-01", 1), launch("i-02", 0.5)], ["i-02"], 1, 0.75 + 0.5),
        ([_activity(NO_CAPACITY, 0.5, "Failed"), launch("i-03", 0.5, "Cancelled")], [], 1, 0),
        ([end("i-01", 0.1, "InProgress"), launch("i-01", 1)], ["i-01"], 1, 1),  # still paid for
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
    trainium = part(spent(deployment, NOON), CostGroup.TRAINIUM)
    assert (trainium.running, trainium.hours) == (len(running), hours)
    assert trainium.usd == pytest.approx(hours * (PRICE + VOLUME))
    assert trainium.usd_per_hour == pytest.approx(len(running) * (PRICE + VOLUME))


def test_a_capacity_block_is_paid_for_whatever_is_used(
    aws: FakeAws, deployment: Deployment
) -> None:
    bought = {"purchase": Purchase.CAPACITY_BLOCK, "reservation_id": "cr-0123456789abcdef0"}
    capacity = deployment.experiment.capacity.model_copy(update=bought)
    experiment = deployment.experiment.model_copy(update={"capacity": capacity})
    deployed(aws)
    costs = spent(dataclasses.replace(deployment, experiment=experiment), NOON)
    assert costs.amount == f"{costs.usd:.2f} USD used (the Capacity Block is paid as a whole)"
