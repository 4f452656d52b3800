"""What an experiment has cost so far. The answers of AWS are checked against boto3's models."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Final

import boto3
import pytest
from botocore.stub import Stubber

from deployment import account as accounts
from deployment.account import Deployment, DeploymentError
from deployment.spent import spent
from experiment import load
from experiment.cost import Standing, cost
from experiment.schema import Purchase
from tests.experiment.files import ARTICLE

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
    return {
        "ActivityId": f"{description} {hours}",
        "AutoScalingGroupName": "eks-nodes",
        "Cause": "somebody asked",
        "Description": description,
        "StartTime": ago(hours),
        "StatusCode": status,
    } | ({"EndTime": ago(hours)} if status in ("Successful", "Failed") else {})


class Account:
    """Answers of the services that are asked, in the order of the calls to each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stubs: dict[str, Stubber] = {}
        self._clients: dict[str, Any] = {}
        monkeypatch.setattr(accounts, "client", lambda service, _region: self._client(service))

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            made = boto3.client(
                service,
                region_name="us-east-2",
                aws_access_key_id="none",
                aws_secret_access_key="none",
            )
            self._clients[service], self._stubs[service] = made, Stubber(made)
            self._stubs[service].activate()
        return self._clients[service]

    def _answer(self, service: str, call: str, answer: dict[str, Any]) -> None:
        self._client(service)
        self._stubs[service].add_response(call, answer)

    def refusal(self, service: str, call: str, code: str, words: str) -> None:
        self._client(service)
        self._stubs[service].add_client_error(call, code, words, 400)

    def stack(self, hours: float | None, **outputs: str) -> None:
        """The next stack that is asked for; None: it is not there."""
        if hours is None:
            words = "Stack with id article-network does not exist"
            self.refusal("cloudformation", "describe_stacks", "ValidationError", words)
            return
        stack = {
            "StackName": "any",
            "CreationTime": ago(hours),
            "StackStatus": "CREATE_COMPLETE",
            "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()],
        }
        self._answer("cloudformation", "describe_stacks", {"Stacks": [stack]})

    def node_group(
        self, *activities: dict[str, Any], there: tuple[str, ...] = (), made: float = 1
    ) -> None:
        """The next node group: what its Auto Scaling group did, and which instances it has."""
        group = {
            "nodegroupName": "nodes",
            "status": "ACTIVE",
            "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": len(there)},
            "resources": {"autoScalingGroups": [{"name": "eks-nodes"}]},
        }
        self._answer("eks", "describe_nodegroup", {"nodegroup": group})
        answer = {"Activities": [*activities]}
        self._answer("autoscaling", "describe_scaling_activities", answer)
        scaling = {
            "AutoScalingGroupName": "eks-nodes",
            "MinSize": 0,
            "MaxSize": 1,
            "DesiredCapacity": len(there),
            "DefaultCooldown": 300,
            "AvailabilityZones": ["us-east-2c"],
            "HealthCheckType": "EC2",
            "CreatedTime": ago(made),
            "Instances": [
                {
                    "InstanceId": instance,
                    "AvailabilityZone": "us-east-2c",
                    "LifecycleState": "InService",
                    "HealthStatus": "Healthy",
                    "ProtectedFromScaleIn": False,
                }
                for instance in there
            ],
        }
        self._answer(
            "autoscaling", "describe_auto_scaling_groups", {"AutoScalingGroups": [scaling]}
        )

    def capacity_block(self, state: str, begin: float, end: float) -> None:
        """The next reservation that is asked for; hours from noon on."""
        block = {
            "CapacityReservationId": "cr-0123456789abcdef0",
            "TotalInstanceCount": 1,
            "State": state,
            "StartDate": ago(-begin),
            "EndDate": ago(-end),
        }
        answer = {"CapacityReservations": [block]}
        self._answer("ec2", "describe_capacity_reservations", answer)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    return Account(monkeypatch)


@pytest.fixture
def deployment() -> Deployment:
    return Deployment(load(ARTICLE), str(ARTICLE), "123456789012")


def deployed(account: Account, *activities: dict[str, Any], **options: Any) -> None:
    """The network for 3 hours, the cluster for 2, and Trainium nodes that did this."""
    account.stack(3)
    account.stack(2)
    account.stack(1, NodeGroup="nodes")
    account.node_group(*activities, **options)
    account.stack(1, NodeGroup="nodes")  # it has no group that compiles


def test_nothing_deployed_costs_nothing(account: Account, deployment: Deployment) -> None:
    for _ in range(4):
        account.stack(None)
    costs = spent(deployment, NOON)
    assert (costs.usd, costs.usd_per_hour, costs.since, costs.parts) == (0, 0, None, ())


def test_without_nodes_it_is_what_an_idle_experiment_costs(
    account: Account, deployment: Deployment
) -> None:
    deployed(account)
    costs = spent(deployment, NOON)
    network, cluster, trainium = costs.parts
    assert (network.hours, cluster.hours, trainium.hours) == (3, 2, 0)
    assert costs.since == ago(3)
    assert costs.usd == pytest.approx(network.usd + cluster.usd)
    assert costs.usd_per_hour == pytest.approx(cost(deployment.experiment).idle_usd_per_hour)


NO_CAPACITY: Final = "Launching a new EC2 instance.  Status Reason: We do not have sufficient ..."


@pytest.mark.parametrize(
    ("activities", "there", "made", "hours"),
    [
        ([launch("i-01", 0.5)], ["i-01"], 1, 0.5),
        # One that went costs its hours and no more.
        ([end("i-01", 0.25), launch("i-01", 1), launch("i-02", 0.5)], ["i-02"], 1, 0.75 + 0.5),
        ([_activity(NO_CAPACITY, 0.5, "Failed"), launch("i-03", 0.5, "Cancelled")], [], 1, 0),
        # One that is about to end is still paid for.
        ([end("i-01", 0.1, "InProgress"), launch("i-01", 1)], ["i-01"], 1, 1),
        # One whose launch is forgotten counts for six weeks.
        ([], ["i-01"], 2000, 6 * 7 * 24),
    ],
)
def test_nodes_cost_their_hours(
    account: Account,
    deployment: Deployment,
    activities: list[dict[str, Any]],
    there: list[str],
    made: float,
    hours: float,
) -> None:
    deployed(account, *activities, there=tuple(there), made=made)
    trainium = spent(deployment, NOON).parts[2]
    assert (trainium.now, trainium.hours) == (len(there), hours)
    assert trainium.usd == pytest.approx(hours * (PRICE + VOLUME))
    assert trainium.usd_per_hour == pytest.approx(len(there) * (PRICE + VOLUME))


def test_compile_nodes_cost_their_own_price(account: Account, deployment: Deployment) -> None:
    account.stack(3)
    account.stack(2)
    account.stack(1, NodeGroup="nodes", CompileNodeGroup="compile")
    account.node_group()
    account.stack(1, NodeGroup="nodes", CompileNodeGroup="compile")
    account.node_group(launch("i-01", 1), launch("i-02", 1), there=("i-01", "i-02"))
    compiling = spent(deployment, NOON).parts[3]
    assert compiling.standing is Standing.COMPILE
    assert (compiling.now, compiling.hours) == (2, 2)
    parts = cost(deployment.experiment).parts
    two = sum(part.usd_per_hour for part in parts if part.standing is Standing.COMPILE)
    assert compiling.usd_per_hour == pytest.approx(two)


@pytest.mark.parametrize(
    ("begin", "end", "usd"),
    [(-1, 23, 24 * PRICE), (-1, 20, 21 * PRICE), (24, 72, 48 * PRICE)],
    ids=["a day", "less, begun at another time", "not begun yet"],
)
def test_a_capacity_block_is_paid_for_whatever_is_used(
    account: Account, deployment: Deployment, begin: float, end: float, usd: float
) -> None:
    deployed(account, launch("i-01", 0.5), there=("i-01",))
    account.capacity_block("active", begin, end)
    used = spent(_with_a_block(deployment), NOON)
    assert used.block is not None
    assert used.block.usd == pytest.approx(usd)
    paid = used.usd - 0.5 * PRICE + usd
    assert used.amount == (
        f"{used.usd:.2f} USD used, {paid:.2f} USD paid with the whole Capacity Block"
    )


def test_a_capacity_block_that_was_not_paid_or_is_forgotten_is_not_counted(
    account: Account, deployment: Deployment
) -> None:
    deployed(account)
    account.capacity_block("payment-failed", 0, 24)
    deployed(account)
    code = "InvalidCapacityReservationId.NotFound"
    account.refusal("ec2", "describe_capacity_reservations", code, "no")
    for _ in range(2):
        assert spent(_with_a_block(deployment), NOON).block is None


def _with_a_block(deployment: Deployment) -> Deployment:
    bought = {"purchase": Purchase.CAPACITY_BLOCK, "reservation_id": "cr-0123456789abcdef0"}
    capacity = deployment.experiment.capacity.model_copy(update=bought)
    experiment = deployment.experiment.model_copy(update={"capacity": capacity})
    return dataclasses.replace(deployment, experiment=experiment)


def test_an_account_that_refuses_is_said_in_a_line(
    account: Account, deployment: Deployment
) -> None:
    account.stack(None)
    account.refusal("cloudformation", "describe_stacks", "AccessDenied", "no")
    with pytest.raises(DeploymentError, match=r"^AWS: .* may not call .*DescribeStacks$"):
        spent(deployment, NOON)
