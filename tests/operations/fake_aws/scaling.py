"""Auto Scaling: the groups of managed node groups, and scheduled actions that change their sizes.

Once a scheduled action is carried out it has the time at which it acts next; without an end it
goes on for ever. What was due is carried out late, also if the action was changed meanwhile.
"""

import datetime
from typing import Any, Final

from tests.operations.fake_aws.eks import Eks, NodeGroup, Pace
from tests.operations.fake_aws.facts import Facts
from tests.operations.fake_aws.service import MINUTE, Answer, Clock, refused

_MINUTE: Final = datetime.timedelta(minutes=1)
_RECURRENCES: Final = ("5-55/10 * * * *", "5-59/10 * * * *")


class AutoScaling:
    def __init__(self, clock: Clock, pace: Pace, eks: Eks, facts: Facts) -> None:
        self.strays: list[str] = []
        """Node groups that an action has ended though their guard was not to act yet."""
        self._clock, self._pace, self._eks, self._facts = clock, pace, eks, facts

    def describe_auto_scaling_groups(self, *, AutoScalingGroupNames: list[str]) -> Answer:
        groups = [g for g in self._eks.groups.values() if f"eks-{g.name}" in AutoScalingGroupNames]
        return {"AutoScalingGroups": [self._described(group) for group in groups]}

    def update_auto_scaling_group(self, *, AutoScalingGroupName: str, MaxSize: int) -> None:
        self._group(AutoScalingGroupName).most = MaxSize

    def put_scheduled_update_group_action(
        self, *, AutoScalingGroupName: str, ScheduledActionName: str, **action: Any
    ) -> None:
        if self._pace.contends:
            raise refused("ResourceContention", "You already have a pending update")
        group = self._group(AutoScalingGroupName)
        if action["StartTime"] <= self._clock.now():
            raise refused("ValidationError", "Given start time is in the past")
        others = [a for name, a in group.actions.items() if name != ScheduledActionName]
        is_taken = action["StartTime"].minute in self._pace.taken
        if is_taken or any(abs(a["StartTime"] - action["StartTime"]) < _MINUTE for a in others):
            raise refused("AlreadyExists", "a scheduled action with this start time")
        assert action["Recurrence"] in _RECURRENCES
        stored = group.actions[ScheduledActionName] = {
            "AutoScalingGroupName": AutoScalingGroupName,
            "ScheduledActionName": ScheduledActionName,
            **action,
        }
        self._plan(group, stored)

    def describe_scheduled_actions(
        self, *, AutoScalingGroupName: str, ScheduledActionNames: list[str]
    ) -> Answer:
        actions = self._group(AutoScalingGroupName).actions
        known = [dict(actions[name]) for name in ScheduledActionNames if name in actions]
        return {"ScheduledUpdateGroupActions": known}

    def ends(self, group: NodeGroup) -> float | None:
        """When an action is to end the group's nodes; None if none is."""
        if {"ScheduledActions", "Terminate"} & {*group.suspended} or group.protects:
            return None
        times = [
            self._clock.seconds_of(action["StartTime"])
            for action in group.actions.values()
            if action["DesiredCapacity"] == 0 and "EndTime" not in action
        ]
        return min(times, default=None)

    def _described(self, group: NodeGroup) -> Answer:
        instances = [
            {"InstanceId": f"i-{number}", "LifecycleState": "InService"}
            for number in range(len(group.nodes))
        ]
        return {
            "AutoScalingGroupName": f"eks-{group.name}",
            "MinSize": group.minimum,
            "MaxSize": group.most,
            "DesiredCapacity": group.scaled,
            "Instances": self._facts.scaled or instances,
            "SuspendedProcesses": [{"ProcessName": name} for name in group.suspended],
            "NewInstancesProtectedFromScaleIn": group.protects,
            **({"Operator": {"Principal": group.operator}} if group.operator else {}),
        }

    def _plan(self, group: NodeGroup, action: Answer) -> None:
        def due() -> None:
            if group.actions.get(action["ScheduledActionName"]) is action:
                self._clock.after(self._pace.late, lambda: self._act(group, action))

        self._clock.after(self._clock.seconds_of(action["StartTime"]) - self._clock.seconds, due)

    def _act(self, group: NodeGroup, action: Answer) -> None:
        following = ((self._clock.seconds + 5 * MINUTE) // (10 * MINUTE) + 0.5) * 10 * MINUTE
        action["StartTime"] = self._clock.moment(following)
        current = group.actions.get(action["ScheduledActionName"], action)
        if current is action:
            self._plan(group, action)
        if "ScheduledActions" in group.suspended:
            return
        left = self._clock.seconds_of(current["StartTime"]) - self._clock.seconds
        if group.scaled and current is not action and left > 10 * MINUTE:
            self.strays.append(group.name)
        group.minimum, group.most = action["MinSize"], action["MaxSize"]
        self._eks.scale(group, action["DesiredCapacity"])

    def _group(self, name: str) -> NodeGroup:
        group = self._eks.groups.get(name.removeprefix("eks-"))
        if group is None:
            raise refused("ValidationError", f"AutoScalingGroup name not found - {name}")
        return group
