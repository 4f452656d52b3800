"""EventBridge Scheduler: schedules that call EKS when their time has come.

Rate-based schedules act first at their start and then at their rate until their end (EventBridge
Scheduler User Guide, "Schedule types"); a failed call is tried again as the retry policy says.
"""

import datetime
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from tests.deployment.fake_aws.eks import Eks
from tests.deployment.fake_aws.service import MINUTE, Answer, Clock, refused

_AT: Final = "at(%Y-%m-%dT%H:%M:%S)"
_RATE: Final = re.compile(r"rate\((\d+) minutes\)")
_TARGET: Final = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"


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
