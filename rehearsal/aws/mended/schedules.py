"""EventBridge Scheduler's groups in CloudFormation, and what moto's Scheduler does not refuse."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from moto.cloudformation.parsing import get_model_map
from moto.core.exceptions import JsonRESTError
from moto.scheduler.models import EventBridgeSchedulerBackend, Schedule, scheduler_backends

from rehearsal.aws.mended.base import Resource, arn


def mend() -> None:
    """Adds the type, and puts the substitutes into moto. mypy forbids it, hence the comments."""
    get_model_map()[ScheduleGroup.type] = ScheduleGroup  # type: ignore[assignment]
    backend = EventBridgeSchedulerBackend
    backend.create_schedule = _in_a_group(backend.create_schedule)  # type: ignore[method-assign]
    backend.update_schedule = _wholly(backend.update_schedule)  # type: ignore[method-assign]


class ScheduleGroup(Resource):
    """Deleted with all its schedules (EventBridge Scheduler User Guide, "Deleting a schedule
    group")."""

    type = "AWS::Scheduler::ScheduleGroup"
    replaced_by = frozenset({"Name"})

    @property
    def physical_resource_id(self) -> str:
        """The group's name."""
        return str(self.told.get("Name", self.name))

    def make(self) -> None:
        """Makes it; refuses if there is one of this name, as AWS does."""
        if self.physical_resource_id in self._backend.schedule_groups:
            raise JsonRESTError(
                "ConflictException", f"Schedule group {self.physical_resource_id} already exists."
            )
        self._backend.create_schedule_group(self.physical_resource_id, self.told.get("Tags", []))

    def remove(self) -> None:
        """Deletes it."""
        self._backend.delete_schedule_group(self.physical_resource_id)

    def attributes(self) -> Mapping[str, str]:
        """Those that do not change."""
        group = f"schedule-group/{self.physical_resource_id}"
        return {"Arn": arn(self.where, "scheduler", group), "State": "ACTIVE"}

    @property
    def _backend(self) -> EventBridgeSchedulerBackend:
        return scheduler_backends[self.where.account][self.where.region]


def _in_a_group(create: Callable[..., Schedule]) -> Callable[..., Schedule]:
    """moto ends in an internal error if the group does not exist."""

    @functools.wraps(create)
    def create_schedule(self: EventBridgeSchedulerBackend, *args: Any, **kwargs: Any) -> Schedule:
        self.get_schedule_group(kwargs.get("group_name"))
        return create(self, *args, **kwargs)

    return create_schedule


def _wholly(update: Callable[..., Schedule]) -> Callable[..., Schedule]:
    """AWS puts defaults in place of what an update leaves out; moto would leave ``None``."""

    @functools.wraps(update)
    def update_schedule(self: EventBridgeSchedulerBackend, *args: Any, **kwargs: Any) -> Schedule:
        return update(self, *args, **{**kwargs, "state": kwargs.get("state") or "ENABLED"})

    return update_schedule
