"""The groups of nodes and their guard, as the embedded EKS and EventBridge Scheduler have them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from deployment import guard, nodes
from deployment.errors import DeploymentError
from deployment.nodes import Kind
from deployment.place import Place
from rehearsal.aws.client import Aws

At = Callable[..., Place]
ROLE: Final = "arn:aws:iam::123456789012:role/{}"


def stand(aws: Aws, place: Place, *, compile_nodes: bool = True) -> None:
    """What the stacks would have made: a cluster, its groups at 0, and what names them."""
    told = {"NodeGroup": "its-nodes", "GuardGroup": f"{place.name}-guard"} | {
        "GuardRole": ROLE.format("guard")
    }
    if compile_nodes:
        told |= {"CompileNodeGroup": "its-compilers", "CompileGuardRole": ROLE.format("compiling")}
    aws.client("cloudformation").create_stack(
        StackName=f"{place.name}-trainium",
        TemplateBody=json.dumps(
            {
                "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
                "Outputs": {name: {"Value": value} for name, value in told.items()},
            }
        ),
    )
    network = {"subnetIds": ["subnet-1", "subnet-2"]}
    aws.client("eks").create_cluster(
        name=place.name, roleArn=ROLE.format("cluster"), resourcesVpcConfig=network
    )
    for name in ("NodeGroup", "CompileNodeGroup"):
        if name in told:
            aws.client("eks").create_nodegroup(
                clusterName=place.name,
                nodegroupName=told[name],
                scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
                subnets=["subnet-1"],
                nodeRole=ROLE.format("node"),
            )
    aws.client("scheduler").create_schedule_group(Name=f"{place.name}-guard")


def schedules(aws: Aws, place: Place) -> dict[str, dict[str, Any]]:
    scheduler = aws.client("scheduler")
    listed = scheduler.list_schedules(GroupName=f"{place.name}-guard")["Schedules"]
    return {
        each["Name"]: scheduler.get_schedule(Name=each["Name"], GroupName=each["GroupName"])
        for each in listed
    }


def sizes(place: Place) -> dict[str, int]:
    return {group.kind: group.size for group in nodes.groups(place)}


def test_an_experiment_without_stacks_has_no_nodes(at: At) -> None:
    place = at("nothing")
    assert nodes.groups(place) == []
    assert guard.find(place, Kind.TRAINIUM) is None
    assert not guard.stop(place, Kind.TRAINIUM)
    with pytest.raises(DeploymentError, match="nothing-trainium lacks them"):
        guard.start(place, Kind.TRAINIUM, 1)


def test_nodes_start_with_a_guard_that_asks_eks_for_none(aws: Aws, at: At) -> None:
    place = at("guarded", {"capacity.max_hours": 5.5})
    stand(aws, place)
    before = datetime.datetime.now(datetime.UTC)

    made = guard.start(place, Kind.TRAINIUM, 1)

    assert sizes(place) == {"trainium": 1, "compile": 0}
    (schedule,) = schedules(aws, place).values()
    assert schedule["Name"] == made.name == "trainium-to-zero"
    # Several times: EKS refuses while another change of the group goes on.
    assert schedule["ScheduleExpression"] == "rate(10 minutes)"
    assert schedule["StartDate"] == made.at
    assert schedule["EndDate"] == made.at + datetime.timedelta(hours=1)
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert schedule["ActionAfterCompletion"] == "DELETE"
    hours = (made.at - before) / datetime.timedelta(hours=1)
    assert hours == pytest.approx(5.5, abs=0.02)
    target = schedule["Target"]
    assert target["Arn"] == "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
    assert target["RoleArn"] == ROLE.format("guard")
    assert json.loads(target["Input"]) == {
        "ClusterName": "guarded",
        "NodegroupName": "its-nodes",
        "ScalingConfig": {"MinSize": 0, "DesiredSize": 0},
    }
    assert guard.find(place, Kind.TRAINIUM) == made


def test_the_guard_is_there_before_the_nodes(
    aws: Aws, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = at("refused")
    stand(aws, place)
    aws.client("scheduler").delete_schedule_group(Name="refused-guard")
    with pytest.raises(DeploymentError, match="AWS: "):
        guard.start(place, Kind.TRAINIUM, 1)
    assert sizes(place)["trainium"] == 0


def test_nodes_that_stand_keep_the_time_of_their_guard(aws: Aws, at: At) -> None:
    place = at("kept")
    stand(aws, place)
    first = guard.start(place, Kind.TRAINIUM, 1)
    assert guard.start(at("kept", {"capacity.max_hours": 99}), Kind.TRAINIUM, 1) == first
    # Scaled to 0 by hand, past the guard: the next nodes have a new time.
    aws.client("eks").update_nodegroup_config(
        clusterName="kept", nodegroupName="its-nodes", scalingConfig={"desiredSize": 0}
    )
    later = guard.start(at("kept", {"capacity.max_hours": 99}), Kind.TRAINIUM, 1)
    assert later.hours == pytest.approx(99, abs=0.02)
    assert len(schedules(aws, place)) == 1


def test_nodes_that_stand_unguarded_are_guarded(aws: Aws, at: At) -> None:
    place = at("bare")
    stand(aws, place)
    group = nodes.find(place, Kind.TRAINIUM)
    assert group is not None
    nodes.resize(place, group, 1)
    assert guard.find(place, Kind.TRAINIUM) is None
    assert guard.start(place, Kind.TRAINIUM, 1).hours == pytest.approx(12, abs=0.02)


def test_a_guard_whose_time_is_over_guards_nothing(aws: Aws, at: At) -> None:
    place = at("over")
    stand(aws, place)
    guard.start(place, Kind.TRAINIUM, 1)
    (schedule,) = schedules(aws, place).values()
    kept = ("Name", "GroupName", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    aws.client("scheduler").update_schedule(
        StartDate=datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1),
        **{name: schedule[name] for name in kept},
    )
    assert guard.find(place, Kind.TRAINIUM) is None
    # The nodes stand all the same, so they get another.
    assert guard.start(place, Kind.TRAINIUM, 1).hours == pytest.approx(12, abs=0.02)


def test_a_size_counts_when_eks_tells_of_it(aws: Aws, at: At) -> None:
    place = at("late")
    stand(aws, place)
    group = nodes.find(place, Kind.TRAINIUM)
    assert group is not None
    looks = []

    def as_before(parsed: dict[str, Any], **_: Any) -> None:
        looks.append(parsed)
        if len(looks) < 3:
            parsed["nodegroup"]["scalingConfig"]["desiredSize"] = 0

    place.client("eks").meta.events.register("after-call.eks.DescribeNodegroup", as_before)
    nodes.resize(place, group, 1)
    assert len(looks) == 3


def test_stopping_ends_nodes_and_their_guard(aws: Aws, at: At) -> None:
    place = at("stopped")
    stand(aws, place)
    guard.start(place, Kind.TRAINIUM, 1)
    guard.start(place, Kind.COMPILE, 2)
    assert sizes(place) == {"trainium": 1, "compile": 2}
    assert {*schedules(aws, place)} == {"trainium-to-zero", "compile-to-zero"}

    assert guard.stop(place, Kind.COMPILE)
    assert sizes(place) == {"trainium": 1, "compile": 0}
    assert {*schedules(aws, place)} == {"trainium-to-zero"}
    assert not guard.stop(place, Kind.COMPILE)

    assert nodes.standing(place)
    assert guard.stop(place, Kind.TRAINIUM)
    assert not nodes.standing(place)
    assert schedules(aws, place) == {}


def test_a_group_has_no_more_nodes_than_it_may(aws: Aws, at: At) -> None:
    place = at("many")
    stand(aws, place)
    guard.start(place, Kind.COMPILE, 7)
    assert sizes(place)["compile"] == 2


def test_each_kind_has_a_role_of_its_own(aws: Aws, at: At) -> None:
    place = at("roles")
    stand(aws, place)
    guard.start(place, Kind.COMPILE, 1)
    (schedule,) = schedules(aws, place).values()
    assert schedule["Target"]["RoleArn"] == ROLE.format("compiling")
    assert json.loads(schedule["Target"]["Input"])["NodegroupName"] == "its-compilers"


def test_an_experiment_that_compiles_elsewhere_has_one_group(aws: Aws, at: At) -> None:
    place = at("single")
    stand(aws, place, compile_nodes=False)
    assert sizes(place) == {"trainium": 0}
    assert nodes.find(place, Kind.COMPILE) is None
