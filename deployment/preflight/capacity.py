"""Asks EC2 whether the zones have the instances, and what was reserved of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment.account import Deployment
from deployment.preflight.check import Answer
from experiment.cost import SCALED_IN, guard_hours
from experiment.cost.prices import SYSTEM_INSTANCE
from experiment.hardware import COMPILE_INSTANCE
from experiment.schema import CompileNode, Purchase

_KINDS: Final = {Purchase.RESERVATION: "default", Purchase.CAPACITY_BLOCK: "capacity-block"}
"""EC2's names of them (``ReservationType``)."""
_COMING: Final = frozenset({"scheduled", "pending", "payment-pending", "assessing", "delayed"})


def zones(deployment: Deployment) -> Iterator[Answer]:
    """Whether this account has the zones, and may use them."""
    wanted = deployment.experiment.aws.availability_zones
    answer = deployment.client("ec2").describe_availability_zones(AllAvailabilityZones=True)
    problems = {zone["ZoneName"]: _problem(zone) for zone in answer["AvailabilityZones"]}
    wrong = [
        f"{zone}: {problem}" for zone in wanted if (problem := problems.get(zone, "no such zone"))
    ]
    usable = ", ".join(sorted(zone for zone, problem in problems.items() if not problem))
    facts = {"zones": ", ".join(wanted), "wrong": "; ".join(wrong), "usable": usable or "none"}
    yield "wrong" if wrong else "ok", facts


def _problem(zone: dict[str, Any]) -> str:
    if zone.get("OptInStatus") == "not-opted-in":
        return "the account has not opted into it"
    return "" if zone["State"] == "available" else str(zone["State"])


def offerings(deployment: Deployment) -> Iterator[Answer]:
    """Whether any of the zones has each instance type: a node group takes those that have it."""
    experiment = deployment.experiment
    zones = [*experiment.aws.availability_zones]
    wanted = {
        experiment.capacity.instance_type: [experiment.capacity.availability_zone],
        SYSTEM_INSTANCE: zones,
    }
    if experiment.compile_node is CompileNode.CPU:
        wanted[COMPILE_INSTANCE.name] = zones
    for instance, asked in wanted.items():
        pages = deployment.client("ec2").get_paginator("describe_instance_type_offerings")
        listed = pages.paginate(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [instance]}],
        )
        offered = sorted(o["Location"] for page in listed for o in page["InstanceTypeOfferings"])
        having = [zone for zone in asked if zone in offered]
        yield (
            "ok" if having else "elsewhere" if offered else "nowhere",
            {
                "subject": instance,
                "asked": ", ".join(asked),
                "having": ", ".join(having or offered),
            },
        )


def reservation(deployment: Deployment) -> Iterator[Answer]:
    """The Capacity Block, or the reservation, if one is named."""
    id = deployment.experiment.capacity.reservation_id
    if id is None:
        return
    facts = {"subject": id}
    try:
        (described,) = deployment.client("ec2").describe_capacity_reservations(
            CapacityReservationIds=[id]
        )["CapacityReservations"]
    except ClientError as error:
        # InvalidCapacityReservationId.NotFound, or .Malformed
        if not error.response["Error"]["Code"].startswith("InvalidCapacityReservationId"):
            raise
        yield "missing", facts
        return
    answer, more = _judged(deployment, described)
    yield answer, facts | dict(more)


def _judged(deployment: Deployment, described: dict[str, Any]) -> Answer:
    capacity, state = deployment.experiment.capacity, described["State"]
    end, left = described.get("EndDate"), _left(described)
    facts = {
        "state": f"{state}, {described['TotalInstanceCount']} x {described['InstanceType']} "
        f"in {described['AvailabilityZone']}"
    }
    pairs = {
        "capacity.purchase": (
            described.get("ReservationType", "default"),
            _KINDS[capacity.purchase],
        ),
        "capacity.instance_type": (described["InstanceType"], capacity.instance_type),
        "capacity.availability_zone": (described["AvailabilityZone"], capacity.availability_zone),
    }
    wrong = {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}
    if wrong:
        words = (f"{field} is {has}, the file has {wants}" for field, (has, wants) in wrong.items())
        return "other", {"differences": "; ".join(words), "fields": ", ".join(wrong)}
    if state != "active" and state not in _COMING:
        return "over", {"state": state}
    if left is not None and left <= datetime.timedelta():
        return "too late", {"end": _time(end)}
    free = _free(deployment, described)
    if free < capacity.nodes:
        return "used up", {"free": free, "of": described["TotalInstanceCount"]} | {
            "wanted": capacity.nodes
        }
    if state in _COMING:
        begin = described.get("StartDate")
        return "coming", facts | {"begin": f", from {_time(begin)}" if begin else ""}
    if left is None:
        return "endless", facts
    hours, limit = left.total_seconds() / 3600, guard_hours(deployment.experiment)
    facts |= {"hours": f"{hours:.1f}", "limit": f"{limit:g}"}
    return "short" if hours < limit else "ok", facts


def _free(deployment: Deployment, described: dict[str, Any]) -> int:
    """The instances that are left, beside those that are the experiment's own."""
    total = int(described["TotalInstanceCount"])
    if described["State"] != "active":
        return total
    filters = {
        "tag:eks:cluster-name": deployment.name,
        "capacity-reservation-id": described["CapacityReservationId"],
        "instance-state-name": "running",
    }
    asked = [{"Name": name, "Values": [value]} for name, value in filters.items()]
    pages = deployment.client("ec2").get_paginator("describe_instances").paginate(Filters=asked)
    own = sum(len(each["Instances"]) for page in pages for each in page["Reservations"])
    return int(described.get("AvailableInstanceCount", total)) + own


def _left(described: dict[str, Any]) -> datetime.timedelta | None:
    """Until its nodes go. None if it has no end."""
    end: datetime.datetime | None = described.get("EndDate")
    if end is None:
        return None
    is_block = described.get("ReservationType") == "capacity-block"
    early = SCALED_IN if is_block else datetime.timedelta()
    return end - early - datetime.datetime.now(datetime.UTC)


def _time(when: datetime.datetime | None) -> str:
    return f"{when.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC" if when else ""
