"""EKS and its Auto Scaling groups: one cluster's managed node groups, and what ends their nodes.

An update is accepted, carried out later, and reported at yet another time. Meanwhile no other is
accepted. Nodes come when there is capacity.

EventBridge Scheduler calls EKS when a schedule's time has come: at its start and then at its rate
until its end (User Guide, "Schedule types"). A failed call is tried again as the retry policy says.
"""

import datetime
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import ClientError

from tests.deployment.fake_aws.service import MINUTE, Answer, Clock, refused

_AT: Final = "at(%Y-%m-%dT%H:%M:%S)"
_RATE: Final = re.compile(r"rate\((\d+) minutes\)")
_TARGET: Final = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"


@dataclass
class Pace:
    """How long things take, in seconds. May be changed at any time."""

    update: float = 20
    """From an accepted update until it is carried out."""
    report: float = 30
    """From an accepted update until DescribeNodegroup reports the size."""
    capacity: float | None = 5 * MINUTE
    """From a carried out update until nodes have joined. None: there is no capacity."""
    drain: float = 3 * MINUTE
    """From a carried out update until nodes that are too many have gone."""
    call: float = 0.5
    fails: bool = False
    """Whether updates that are carried out now fail."""
    refuses_no_change: bool = False
    """Whether an update to the sizes that a group has is refused."""


@dataclass
class NodeGroup:
    """A managed node group."""

    name: str
    maximum: int = 4
    status: str = "ACTIVE"
    minimum: int = 0
    desired: int = 0
    """What EKS has accepted last."""
    scaled: int = 0
    """What Auto Scaling was told last, by an update that is carried out."""
    reported: int = 0
    nodes: list[float] = field(default_factory=list)
    """When each joined."""
    asked_at: float = 0
    """When nodes were asked for last."""
    issues: list[Answer] = field(default_factory=list)
    updates: list[Answer] = field(default_factory=list)
    """From the oldest on."""

    @property
    def is_busy(self) -> bool:
        return bool(self.updates) and self.updates[-1]["status"] == "InProgress"

    @property
    def has_or_awaits_nodes(self) -> bool:
        """Whether it is to have nodes, and is not being deleted."""
        return self.desired > 0 and self.status != "DELETING"


class Eks:
    """Its operations, as boto3 spells them."""

    def __init__(self, clock: Clock, pace: Pace) -> None:
        self.groups: dict[str, NodeGroup] = {}
        self._clock, self._pace = clock, pace
        self._numbers = itertools.count(1)

    def describe_nodegroup(self, *, clusterName: str, nodegroupName: str) -> Answer:
        group = self._group(nodegroupName)
        sizes = {"minSize": group.minimum, "maxSize": group.maximum, "desiredSize": group.reported}
        described = {
            "nodegroupName": group.name,
            "clusterName": clusterName,
            "status": group.status,
            "scalingConfig": sizes,
            "health": {"issues": group.issues},
            "resources": {"autoScalingGroups": [{"name": f"eks-{group.name}"}]},
        }
        return {"nodegroup": described}

    def update_nodegroup_config(
        self, *, clusterName: str, nodegroupName: str, scalingConfig: dict[str, int]
    ) -> Answer:
        """Accepts an update, as a rule also to a size that it has."""
        group = self._group(nodegroupName)
        if group.is_busy or group.status != "ACTIVE":
            raise refused("ResourceInUseException", f"{group.name} is being updated")
        size, before = scalingConfig.get("desiredSize", group.desired), group.desired
        minimum = scalingConfig.get("minSize", group.minimum)
        if not minimum <= size <= scalingConfig.get("maxSize", group.maximum):
            raise refused("InvalidParameterException", f"desired size {size} is out of bounds")
        if self._pace.refuses_no_change and size == before and "maxSize" not in scalingConfig:
            raise refused("InvalidParameterException", "No changes needed")
        params = [
            {"type": key[0].upper() + key[1:], "value": str(v)} for key, v in scalingConfig.items()
        ]
        update: Answer = {"id": f"update-{next(self._numbers)}", "status": "InProgress"}
        update |= {"params": params, "createdAt": self._clock.now(), "errors": []}
        group.updates.append(update)
        group.maximum = scalingConfig.get("maxSize", group.maximum)
        group.minimum, group.desired = minimum, size
        if size:
            group.asked_at = self._clock.seconds
        self._clock.after(self._pace.update, lambda: self._carry_out(group, update, before))
        return {"update": dict(update)}

    def describe_update(self, *, name: str, updateId: str, nodegroupName: str) -> Answer:
        updates = self._group(nodegroupName).updates
        return {"update": dict(next(update for update in updates if update["id"] == updateId))}

    def list_updates(self, *, name: str, nodegroupName: str) -> Answer:
        return {"updateIds": [update["id"] for update in self._group(nodegroupName).updates]}

    def create(self, name: str) -> None:
        """As CloudFormation does it: a group without nodes."""
        group = self.groups[name] = NodeGroup(name, status="CREATING")
        self._clock.after(MINUTE, lambda: setattr(group, "status", "ACTIVE"))

    def delete(self, name: str) -> None:
        """As CloudFormation does it: the nodes go, and then the group."""
        group = self.groups[name]
        group.status, group.desired, group.scaled = "DELETING", 0, 0

        def remove() -> None:
            group.nodes.clear()
            if self.groups.get(name) is group:
                del self.groups[name]

        self._clock.after(self._pace.drain, remove)

    def _carry_out(self, group: NodeGroup, update: Answer, before: int) -> None:
        if self._pace.fails:
            update |= {"status": "Failed", "errors": [{"errorMessage": "an internal error"}]}
            group.desired = 0 if group.status == "DELETING" else before
            return
        update["status"] = "Successful"
        size, late = group.desired, max(0.0, self._pace.report - self._pace.update)
        group.scaled = size

        def join() -> None:
            group.nodes += [self._clock.seconds] * (group.scaled - len(group.nodes))

        def leave() -> None:
            del group.nodes[group.scaled :]

        self._clock.after(late, lambda: setattr(group, "reported", size))
        if self._pace.capacity is not None:
            self._clock.after(self._pace.capacity, join)
        self._clock.after(self._pace.drain, leave)

    def _group(self, name: str) -> NodeGroup:
        if name not in self.groups:
            raise refused("ResourceNotFoundException", f"No node group found for name: {name}.")
        return self.groups[name]


class Machines:
    """Step Functions, with one state machine: the stopper. It waits, and asks EKS until it may."""

    def __init__(self, clock: Clock, eks: Eks) -> None:
        self._clock, self._eks = clock, eks
        self._running: list[str] = []
        self._succeeded: list[tuple[str, datetime.datetime]] = []
        self._numbers = itertools.count(1)

    def list_executions(
        self, *, stateMachineArn: str, statusFilter: str, maxResults: int
    ) -> Answer:
        """Those that run, or those that have ended well, from the newest on."""
        if statusFilter == "RUNNING":
            return {"executions": [{"executionArn": arn} for arn in self._running]}
        ended = [{"executionArn": arn, "stopDate": when} for arn, when in self._succeeded[::-1]]
        return {"executions": ended[:maxResults]}

    def stop_execution(self, *, executionArn: str, cause: str) -> Answer:
        """Ends one, also if it has ended."""
        if executionArn in self._running:
            self._running.remove(executionArn)
        return {}

    def start(self, node_group: str) -> None:
        """As the pod does it at the end of a run."""
        execution = f"execution-{next(self._numbers)}"
        self._running.append(execution)
        self._clock.after(MINUTE, lambda: self._ask(execution, node_group, 20, 30.0))

    def _ask(self, execution: str, node_group: str, tries: int, pause: float) -> None:
        if execution not in self._running:
            return
        sizes = {"minSize": 0, "desiredSize": 0}
        try:
            self._eks.update_nodegroup_config(
                clusterName="", nodegroupName=node_group, scalingConfig=sizes
            )
        except ClientError:
            if tries:
                longer = min(pause * 1.5, 5 * MINUTE)
                again = (execution, node_group, tries - 1, longer)
                self._clock.after(pause, lambda: self._ask(*again))
                return
        else:
            self._succeeded.append((execution, self._clock.now()))
        self._running.remove(execution)


class Scheduler:
    """Its operations, as boto3 spells them."""

    def __init__(self, clock: Clock, eks: Eks) -> None:
        self.groups: dict[str, dict[str, Answer]] = {}
        """Schedules by their group and name."""
        self.is_denied = False
        """Whether IAM refuses what schedules call."""
        self.strays: list[str] = []
        """Node groups that a call has ended though their guard was not to act yet."""
        self._clock, self._eks = clock, eks

    def get_schedule(self, *, Name: str, GroupName: str) -> Answer:
        return dict(self._group(GroupName)[self._known(GroupName, Name)])

    def create_schedule(self, **schedule: Any) -> Answer:
        if schedule["Name"] in self._group(schedule["GroupName"]):
            raise refused("ConflictException", f"Schedule {schedule['Name']} already exists.")
        return self._put(schedule)

    def update_schedule(self, **schedule: Any) -> Answer:
        self._known(schedule["GroupName"], schedule["Name"])
        return self._put(schedule)

    def ends(self, node_group: str) -> float | None:
        """When a schedule begins to ask for no nodes in this group; None if none goes on to."""
        begins = [
            self._clock.seconds_of(schedule["StartDate"])
            for schedules in self.groups.values()
            for schedule in schedules.values()
            if "StartDate" in schedule
            and _asks_for_none(schedule, node_group)
            and next(self._calls(schedule), None) is not None
        ]
        return min(begins, default=None)

    def _put(self, schedule: Answer) -> Answer:
        if start := schedule.get("StartDate"):
            if start < self._clock.now() - datetime.timedelta(minutes=5):
                message = "The StartDate you specify cannot be earlier than 5 minutes ago."
                raise refused("ValidationException", message)
            if not start < schedule["EndDate"]:
                message = "The StartDate must come before the EndDate."
                raise refused("ValidationException", message)
        elif self._once(schedule) <= self._clock.seconds:
            raise refused("ValidationException", "The schedule's time is in the past.")
        if schedule["Target"]["Arn"] != _TARGET:
            raise refused("ValidationException", "Provided Arn is not in correct format.")
        stored = {**schedule, "Target": {**schedule["Target"]}}
        self._group(schedule["GroupName"])[schedule["Name"]] = stored
        self._plan(stored)
        return {"ScheduleArn": f"arn:aws:scheduler:::schedule/{schedule['Name']}"}

    def _once(self, schedule: Answer) -> float:
        moment = datetime.datetime.strptime(schedule["ScheduleExpression"], _AT)
        return self._clock.seconds_of(moment.replace(tzinfo=datetime.UTC))

    def _calls(self, schedule: Answer) -> Iterator[float]:
        """When it will act: within the minute."""
        if schedule.get("State") == "DISABLED":
            return
        if "StartDate" not in schedule:
            if self._once(schedule) > self._clock.seconds:
                yield self._once(schedule) + 30
            return
        (minutes,) = _RATE.findall(schedule["ScheduleExpression"])
        start = self._clock.seconds_of(schedule["StartDate"])
        end = self._clock.seconds_of(schedule["EndDate"])
        passed = max(0.0, self._clock.seconds - start) // (int(minutes) * MINUTE)
        for number in itertools.count(int(passed)):
            call = start + number * int(minutes) * MINUTE + 30
            if call > end:
                return
            if call > self._clock.seconds:
                yield call

    def _plan(self, schedule: Answer) -> None:
        call = next(self._calls(schedule), None)
        if call is None:
            if self._is_current(schedule) and schedule["ActionAfterCompletion"] == "DELETE":
                del self.groups[schedule["GroupName"]][schedule["Name"]]
            return

        def act() -> None:
            if self._is_current(schedule):
                self._call(schedule, 0, self._clock.seconds, MINUTE)
                self._plan(schedule)

        self._clock.after(call - self._clock.seconds, act)

    def _call(self, schedule: Answer, attempt: int, since: float, pause: float) -> None:
        """Goes on with its retries though the schedule be changed meanwhile."""
        policy = schedule["Target"].get("RetryPolicy", {})
        request = _as_boto(json.loads(schedule["Target"]["Input"]))
        group = self._eks.groups.get(request["nodegroupName"])
        current = self.groups.get(schedule["GroupName"], {}).get(schedule["Name"], schedule)
        begins = current.get("StartDate")
        if group and group.desired and begins and begins > self._clock.now():
            self.strays.append(group.name)
        try:
            if self.is_denied:
                raise refused("AccessDeniedException", "not authorized to perform")
            self._eks.update_nodegroup_config(**request)
        except ClientError:
            age = self._clock.seconds + pause - since
            is_old = age > policy.get("MaximumEventAgeInSeconds", 86400)
            if not is_old and attempt < policy.get("MaximumRetryAttempts", 185):
                again = (schedule, attempt + 1, since, pause * 2)
                self._clock.after(pause, lambda: self._call(*again))

    def _is_current(self, schedule: Answer) -> bool:
        current = self.groups.get(schedule["GroupName"], {}).get(schedule["Name"])
        return current is schedule

    def _group(self, name: str) -> dict[str, Answer]:
        if name not in self.groups:
            raise refused("ResourceNotFoundException", f"Schedule group {name} does not exist.")
        return self.groups[name]

    def _known(self, group: str, name: str) -> str:
        if name not in self._group(group):
            raise refused("ResourceNotFoundException", f"Schedule {name} does not exist.")
        return name


def _asks_for_none(schedule: Answer, node_group: str) -> bool:
    request = json.loads(schedule["Target"]["Input"])
    sizes = request["ScalingConfig"]
    return bool(request["NodegroupName"] == node_group and sizes.get("DesiredSize") == 0)


def _as_boto(value: Any) -> Any:
    """The input's names begin with a capital, unlike those of boto3."""
    if not isinstance(value, dict):
        return value
    return {key[0].lower() + key[1:]: _as_boto(inner) for key, inner in value.items()}
