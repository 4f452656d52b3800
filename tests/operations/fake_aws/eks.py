"""EKS: one cluster's managed node groups, and the state machine that ends nodes by it.

An update is accepted and carried out later. Meanwhile no other is accepted. Nodes come when there
is capacity. Of sizes that somebody else gives an Auto Scaling group EKS knows nothing, and it sends
those that it thinks have changed.
"""

import datetime
import itertools
from dataclasses import dataclass, field

from botocore.exceptions import ClientError

from tests.operations.fake_aws.service import MINUTE, Answer, Clock, refused


@dataclass
class Pace:
    """How long things take, in seconds. May be changed at any time."""

    update: float = 20
    """From an accepted update until it is carried out."""
    capacity: float | None = 5 * MINUTE
    """From a carried out update until nodes have joined. None: there is no capacity."""
    drain: float = 3 * MINUTE
    """From a carried out update until nodes that are too many have gone."""
    call: float = 0.5
    fails: bool = False
    """Whether updates that are carried out now fail."""
    refuses_no_change: bool = False
    """Whether an update to the sizes that a group has is refused."""
    refuses: bool = False
    """Whether every update is, because of the group's health."""
    late: float = 10
    """From the time of a scheduled action until it is carried out."""
    contends: bool = False
    """Whether Auto Scaling refuses changes of scheduled actions."""
    taken: frozenset[int] = frozenset()
    """Minutes of an hour at which other scheduled actions are to act."""


@dataclass
class NodeGroup:
    name: str
    maximum: int = 1
    status: str = "ACTIVE"
    minimum: int = 0
    desired: int = 0
    """What EKS has accepted last."""
    scaled: int = 0
    """The desired capacity of its Auto Scaling group."""
    most: int = 1
    """The largest of that."""
    suspended: list[str] = field(default_factory=list)
    """Processes of Auto Scaling."""
    protects: bool = False
    """Whether new instances are protected from scale-in."""
    operator: str = ""
    """The service that alone may change its Auto Scaling group."""
    actions: dict[str, Answer] = field(default_factory=dict)
    """Scheduled, by their names."""
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
        awaits = self.is_busy and self.desired > 0
        return (self.scaled > 0 or awaits) and self.status != "DELETING"


class Eks:
    def __init__(self, clock: Clock, pace: Pace) -> None:
        self.groups: dict[str, NodeGroup] = {}
        self._clock, self._pace = clock, pace
        self._numbers = itertools.count(1)

    def describe_nodegroup(self, *, clusterName: str, nodegroupName: str) -> Answer:
        group = self._group(nodegroupName)
        sizes = {"minSize": group.minimum, "maxSize": group.maximum, "desiredSize": group.desired}
        described = {
            "nodegroupName": group.name,
            "clusterName": clusterName,
            "status": "UPDATING" if group.is_busy and group.status == "ACTIVE" else group.status,
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
        if self._pace.refuses:
            raise refused("InvalidRequestException", "Nodegroup health has issues other than ...")
        size, before = scalingConfig.get("desiredSize", group.desired), group.desired
        minimum = scalingConfig.get("minSize", group.minimum)
        if not minimum <= size <= scalingConfig.get("maxSize", group.maximum):
            raise refused("InvalidParameterException", f"desired size {size} is out of bounds")
        most = scalingConfig.get("maxSize", group.maximum)
        is_known = (size, minimum, most) == (before, group.minimum, group.maximum)
        if self._pace.refuses_no_change and is_known:
            raise refused("InvalidParameterException", "No changes needed")
        params = [
            {"type": key[0].upper() + key[1:], "value": str(v)} for key, v in scalingConfig.items()
        ]
        update: Answer = {"id": f"update-{next(self._numbers)}", "status": "InProgress"}
        update |= {"params": params, "createdAt": self._clock.now(), "errors": []}
        group.updates.append(update)
        changed_most = most if most != group.maximum else None
        group.maximum, group.minimum, group.desired = most, minimum, size
        if size:
            group.asked_at = self._clock.seconds
        self._clock.after(
            self._pace.update, lambda: self._carry_out(group, update, before, changed_most)
        )
        return {"update": dict(update)}

    def describe_update(self, *, name: str, updateId: str, nodegroupName: str) -> Answer:
        updates = self._group(nodegroupName).updates
        return {"update": dict(next(update for update in updates if update["id"] == updateId))}

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

    def _carry_out(self, group: NodeGroup, update: Answer, before: int, most: int | None) -> None:
        error = "an internal error" if self._pace.fails else None
        if group.desired > (group.most if most is None else most):
            error = f"New SetDesiredCapacity value {group.desired} is above max value {group.most}"
        if error:
            update |= {"status": "Failed", "errors": [{"errorMessage": error}]}
            group.desired = 0 if group.status == "DELETING" else before
            return
        update["status"] = "Successful"
        group.most = group.most if most is None else most
        self.scale(group, group.desired)

    def scale(self, group: NodeGroup, size: int) -> None:
        """As Auto Scaling does it, whoever asks for it."""
        group.scaled = size

        def join() -> None:
            group.nodes += [self._clock.seconds] * (group.scaled - len(group.nodes))

        def leave() -> None:
            del group.nodes[group.scaled :]

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
        sizes = {"minSize": 0, "desiredSize": 0, "maxSize": 1}
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
