"""The guard acts without a laptop, may do nothing else, and goes with its stack."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import get_session

from deployment import guard, nodes
from deployment.account import Deployment
from deployment.nodes import Kind
from rehearsal.account.eventbridge import carry_out
from rehearsal.account.permissions import allows, may_be_assumed, statements
from rehearsal.aws.client import Aws
from rehearsal.errors import RehearsalError
from tests.rehearsal.account.stacks import make
from tests.synthesis import Synthesised

ROLES = {Kind.TRAINIUM: "GuardRole", Kind.COMPILE: "CompileGuardRole"}
SCALE = "eks:UpdateNodegroupConfig"


def size(place: Deployment, kind: Kind) -> int:
    group = nodes.find(place, kind)
    assert group is not None
    return group.size


def arn_and_tags(account: Aws, place: Deployment, kind: Kind) -> tuple[str, dict[str, str]]:
    group = place.outputs("trainium")[kind.output]
    found = account.client("eks").describe_nodegroup(clusterName=place.name, nodegroupName=group)
    return found["nodegroup"]["nodegroupArn"], found["nodegroup"]["tags"]


@pytest.mark.parametrize("kind", Kind)
def test_the_schedule_scales_its_group_to_0(account: Aws, place: Deployment, kind: Kind) -> None:
    armed = guard.start(place, kind, 1)
    assert size(place, kind) == 1
    told = place.outputs("trainium")
    action, asked = carry_out(account, told["GuardGroup"], armed.name)
    assert action == SCALE
    assert asked == {
        "clusterName": place.name,
        "nodegroupName": told[kind.output],
        "scalingConfig": {"minSize": 0, "desiredSize": 0},
    }
    assert size(place, kind) == 0
    # It is carried out several times.
    carry_out(account, told["GuardGroup"], armed.name)
    assert size(place, kind) == 0
    guard.stop(place, kind)


def test_a_schedule_may_not_scale_the_other_group(account: Aws, place: Deployment) -> None:
    armed = guard.start(place, Kind.TRAINIUM, 1)
    told = place.outputs("trainium")
    change(account, told["GuardGroup"], armed.name, RoleArn=told["CompileGuardRole"])
    with pytest.raises(RehearsalError, match=f"may not {SCALE}"):
        carry_out(account, told["GuardGroup"], armed.name)
    assert size(place, Kind.TRAINIUM) == 1
    guard.stop(place, Kind.TRAINIUM)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"clusterName": "article"}, "has no clusterName"),
        ({"ClusterName": "article"}, "needs nodegroupName"),
    ],
)
def test_a_misspelled_schedule_is_refused(
    account: Aws, place: Deployment, asked: dict[str, str], why: str
) -> None:
    armed = guard.start(place, Kind.TRAINIUM, 1)
    group = place.outputs("trainium")["GuardGroup"]
    change(account, group, armed.name, Input=json.dumps(asked))
    with pytest.raises(RehearsalError, match=why):
        carry_out(account, group, armed.name)
    guard.stop(place, Kind.TRAINIUM)


@pytest.mark.parametrize("kind", Kind)
def test_a_role_may_do_one_thing_to_one_group(account: Aws, place: Deployment, kind: Kind) -> None:
    policy = statements(account, place.outputs("trainium")[ROLES[kind]])
    (other,) = set(Kind) - {kind}
    (mine, tags), (others, tags_of_others) = (
        arn_and_tags(account, place, each) for each in (kind, other)
    )
    cluster = account.client("eks").describe_cluster(name=place.name)["cluster"]["arn"]
    actions = {
        f"{service}:{operation}"
        for service in ("eks", "ec2", "autoscaling", "iam", "sts", "s3", "scheduler")
        for operation in get_session().get_service_model(service).operation_names
    }
    assert SCALE in actions
    allowed = {
        (action, resource)
        for action in actions
        for resource, its_tags in (
            *((mine, tags), (others, tags_of_others), (cluster, tags)),
            *((f"{mine[:-1]}0", {}), ("*", {})),
        )
        if allows(policy, action, resource, its_tags)
    }
    assert allowed == {(SCALE, mine)}


@pytest.mark.parametrize("kind", Kind)
def test_only_this_stacks_schedules_may_have_a_role(
    account: Aws, place: Deployment, kind: Kind
) -> None:
    told = place.outputs("trainium")
    role = told[ROLES[kind]]
    source = f"arn:aws:scheduler:{place.region}:{place.account}:schedule-group/"
    right = {"aws:SourceAccount": place.account, "aws:SourceArn": source + told["GuardGroup"]}

    def assumed(service: str = "scheduler.amazonaws.com", **changed: str) -> bool:
        context = right | {f"aws:{name}": value for name, value in changed.items()}
        return may_be_assumed(account, role, service, context)

    assert assumed()
    assert not assumed("states.amazonaws.com")
    assert not assumed(SourceArn=f"{source}default")
    assert not assumed(SourceAccount="999999999999")


def test_a_schedule_goes_with_its_stack(
    account: Aws, place: Deployment, synthesised: Synthesised
) -> None:
    armed = guard.start(place, Kind.TRAINIUM, 1)
    asked = {"Name": armed.name, "GroupName": place.outputs("trainium")["GuardGroup"]}
    scheduler = account.client("scheduler")
    assert scheduler.get_schedule(**asked)
    account.client("cloudformation").delete_stack(StackName=f"{place.name}-trainium")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        scheduler.get_schedule(**asked)
    assert asked["GroupName"] not in {
        group["Name"] for group in scheduler.list_schedule_groups()["ScheduleGroups"]
    }
    make(account, synthesised, "trainium")
    assert guard.find(place, Kind.TRAINIUM) is None


def change(account: Aws, group: str, name: str, **changed: Any) -> None:
    """Another target for a schedule."""
    scheduler = account.client("scheduler")
    found = scheduler.get_schedule(GroupName=group, Name=name)
    told = ("Name", "GroupName", "ScheduleExpression", "StartDate", "EndDate")
    schedule = {key: found[key] for key in (*told, "FlexibleTimeWindow", "Target")}
    scheduler.update_schedule(**schedule | {"Target": schedule["Target"] | changed})
