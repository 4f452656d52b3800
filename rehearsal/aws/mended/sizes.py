"""Sizes of node groups: refused as EKS refuses them, and remembered.

Instances come and go at once: what Auto Scaling says of them (DescribeScalingActivities) has the
time at which EKS was asked.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult
from moto.eks.exceptions import InvalidParameterException
from moto.eks.models import EKSBackend, Nodegroup


@dataclass
class Instances:
    """Those of one Auto Scaling group, now and before."""

    cluster: str
    nodegroup: str
    running: list[str] = field(default_factory=list)
    activities: list[dict[str, Any]] = field(default_factory=list)
    sizes: list[tuple[datetime.datetime, int]] = field(default_factory=list)
    """When which size was asked for, from the oldest on."""


_groups: Final[dict[str, Instances]] = {}
"""By the Auto Scaling group's name. A group's history outlives it."""
_numbers: Final = itertools.count(1)


def mend() -> None:
    """Puts the substitutes into moto. mypy forbids it, hence the comments."""
    EKSBackend.create_nodegroup = _watching(EKSBackend.create_nodegroup)  # type: ignore[method-assign]
    EKSBackend.update_nodegroup_config = _checking(  # type: ignore[method-assign]
        EKSBackend.update_nodegroup_config
    )
    EKSBackend.list_nodegroups = _of_a_cluster(EKSBackend.list_nodegroups)  # type: ignore[method-assign]
    EKSBackend.delete_nodegroup = _emptying(EKSBackend.delete_nodegroup)  # type: ignore[method-assign]
    AutoScalingResponse.describe_scaling_activities = _activities  # type: ignore[method-assign]


def history() -> list[dict[str, Any]]:
    """Every node group that ever was, with its sizes over time."""
    return [
        {
            "cluster": group.cluster,
            "nodegroup": group.nodegroup,
            "sizes": [{"time": time.isoformat(), "desired": size} for time, size in group.sizes],
        }
        for group in _groups.values()
    ]


def _watching(create: Callable[..., Nodegroup]) -> Callable[..., Nodegroup]:
    @functools.wraps(create)
    def create_nodegroup(*args: Any, **kwargs: Any) -> Nodegroup:
        made = create(*args, **kwargs)
        made.scaling_config = {"minSize": 1, "maxSize": 2, "desiredSize": 2} | made.scaling_config
        _scale(made)
        return made

    return create_nodegroup


def _checking(update: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(update)
    def update_nodegroup_config(
        self: EKSBackend,
        cluster_name: str,
        nodegroup_name: str,
        *args: Any,
        scaling_config: dict[str, int] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        group = self.describe_nodegroup(cluster_name, nodegroup_name)
        wanted = group.scaling_config | (scaling_config or {})
        if not wanted["minSize"] <= wanted["desiredSize"] <= wanted["maxSize"]:
            raise InvalidParameterException(
                message=f"desired capacity {wanted['desiredSize']} must be between min size "
                f"{wanted['minSize']} and max size {wanted['maxSize']}"
            )
        updated = update(
            self, cluster_name, nodegroup_name, *args, scaling_config=scaling_config, **kwargs
        )
        _scale(group)
        return updated

    return update_nodegroup_config


def _of_a_cluster(list_them: Callable[..., Any]) -> Callable[..., Any]:
    """moto ends in an internal error if the cluster does not exist."""

    @functools.wraps(list_them)
    def list_nodegroups(self: EKSBackend, cluster_name: str, *args: Any, **kwargs: Any) -> Any:
        self.describe_cluster(cluster_name)
        return list_them(self, cluster_name, *args, **kwargs)

    return list_nodegroups


def _emptying(delete: Callable[..., Nodegroup]) -> Callable[..., Nodegroup]:
    @functools.wraps(delete)
    def delete_nodegroup(*args: Any, **kwargs: Any) -> Nodegroup:
        gone = delete(*args, **kwargs)
        gone.scaling_config = gone.scaling_config | {"desiredSize": 0}
        _scale(gone)
        return gone

    return delete_nodegroup


def _scale(group: Nodegroup) -> None:
    """Instances come or go until there are as many as the group wants."""
    resources: dict[str, Any] = group.resources
    name = resources["autoScalingGroups"][0]["name"]
    its = _groups.setdefault(name, Instances(group.cluster_name, group.nodegroup_name))
    size, now = group.scaling_config["desiredSize"], datetime.datetime.now(datetime.UTC)
    if not its.sizes or its.sizes[-1][1] != size:
        its.sizes.append((now, size))
    while len(its.running) < size:
        its.running.append(f"i-{next(_numbers):017x}")
        its.activities.append(
            _activity(name, f"Launching a new EC2 instance: {its.running[-1]}", now)
        )
    while len(its.running) > size:
        its.activities.append(
            _activity(name, f"Terminating EC2 instance: {its.running.pop()}", now)
        )


def _activity(group: str, description: str, time: datetime.datetime) -> dict[str, Any]:
    return {
        "ActivityId": str(uuid.uuid4()),
        "AutoScalingGroupName": group,
        "Description": description,
        "Cause": f"At {time:%Y-%m-%dT%H:%M:%SZ} a user request changed the desired capacity.",
        "StartTime": time,
        "EndTime": time,
        "StatusCode": "Successful",
        "Progress": 100,
    }


def _activities(self: AutoScalingResponse) -> ActionResult:
    """From the newest on, as Auto Scaling has them; all on one page."""
    wanted = self._get_param("AutoScalingGroupName")
    found: Iterator[dict[str, Any]] = itertools.chain.from_iterable(
        reversed(group.activities) for name, group in _groups.items() if wanted in (None, name)
    )
    return ActionResult({"Activities": [*found]})
