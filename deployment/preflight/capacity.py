"""Whether the zones have the instances, and what was reserved of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from deployment.place import Place
from deployment.preflight.finding import Finding, ok, refused, warning
from experiment.cost.block import SCALED_IN
from experiment.cost.standing import SYSTEM_INSTANCE
from experiment.hardware import COMPILE_INSTANCE
from experiment.schema import Capacity, CompileNode, Purchase

_KINDS: Final = {Purchase.RESERVATION: "default", Purchase.CAPACITY_BLOCK: "capacity-block"}
"""EC2's names of them (``ReservationType``)."""
_COMING: Final = frozenset({"scheduled", "pending", "payment-pending", "assessing", "delayed"})


def zones(place: Place) -> Iterator[Finding]:
    """That this account has the zones, and may use them."""
    wanted = place.experiment.aws.availability_zones
    asked = place.client("ec2").describe_availability_zones(AllAvailabilityZones=True)
    state = {its["ZoneName"]: _state(its) for its in asked["AvailabilityZones"]}
    wrong = [f"{zone}: {state.get(zone, 'not known')}" for zone in wanted if state.get(zone)]
    wrong += [f"{zone}: no such zone" for zone in wanted if zone not in state]
    usable = ", ".join(sorted(zone for zone, its in state.items() if not its))
    if wrong:
        yield refused(
            "zones",
            "; ".join(wrong),
            f"set aws.availability_zones; this account has {usable or 'none'}",
        )
    else:
        yield ok("zones", ", ".join(wanted))


def _state(zone: dict[str, Any]) -> str:
    """What is wrong with it, or nothing."""
    if zone.get("OptInStatus") == "not-opted-in":
        return "the account has not opted into it"
    if zone["State"] != "available":
        return str(zone["State"])
    return ""


def offerings(place: Place) -> Iterator[Finding]:
    """That each zone has the instance types that the experiment wants there."""
    experiment = place.experiment
    yield _offered(
        place, experiment.capacity.instance_type, [experiment.capacity.availability_zone]
    )
    zones = [*experiment.aws.availability_zones]
    yield _offered(place, SYSTEM_INSTANCE, zones)
    if experiment.compile_node is CompileNode.CPU:
        yield _offered(place, COMPILE_INSTANCE.name, zones)


def _offered(place: Place, instance_type: str, zones: list[str]) -> Finding:
    """Whether any of ``zones`` has it: a node group takes those that have it."""
    pages = place.client("ec2").get_paginator("describe_instance_type_offerings")
    asked = pages.paginate(
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": [instance_type]}],
    )
    there = sorted(its["Location"] for page in asked for its in page["InstanceTypeOfferings"])
    if having := [zone for zone in zones if zone in there]:
        return ok(instance_type, f"offered in {', '.join(having)}")
    found = f"not offered in {', '.join(zones)}"
    if there:
        remedy = (
            f"{place.region} has it in {', '.join(there)}: set aws.availability_zones"
            " and capacity.availability_zone"
        )
    else:
        remedy = f"{place.region} has it in no zone: set aws.region to one that does"
    return refused(instance_type, found, remedy)


def reservation(place: Place) -> Iterator[Finding]:
    """The Capacity Block, or the reservation, if one is named."""
    capacity = place.experiment.capacity
    if capacity.reservation_id is None:
        return
    ec2 = place.client("ec2")
    try:
        (found,) = ec2.describe_capacity_reservations(
            CapacityReservationIds=[capacity.reservation_id]
        )["CapacityReservations"]
    except ClientError as error:
        # InvalidCapacityReservationId.NotFound, or .Malformed
        if not error.response["Error"]["Code"].startswith("InvalidCapacityReservationId"):
            raise
        yield refused(
            capacity.reservation_id,
            f"there is none in this account and {place.region}",
            "set capacity.reservation_id: aws ec2 describe-capacity-reservations "
            f"--region {place.region}",
        )
        return
    yield _judged(place, capacity, found)


def _judged(place: Place, capacity: Capacity, found: dict[str, Any]) -> Finding:
    subject, begins = str(capacity.reservation_id), found.get("StartDate")
    for problem in (_mismatched(capacity, found), _ended(found), _used_up(place, found)):
        if problem:
            return refused(subject, *problem)
    said = (
        f"{found['State']}, {found['TotalInstanceCount']} x {found['InstanceType']} "
        f"in {found['AvailabilityZone']}"
    )
    if found["State"] in _COMING:
        return warning(
            subject,
            f"{said}{f', from {_time(begins)}' if begins else ''}",
            "nodes come when it is active; start them then",
        )
    return _time_left(capacity, found, said)


def _mismatched(capacity: Capacity, found: dict[str, Any]) -> tuple[str, str] | None:
    """What of it differs from what the file says."""
    kind = found.get("ReservationType", "default")
    pairs = {
        "capacity.purchase": (kind, _KINDS[capacity.purchase]),
        "capacity.instance_type": (found["InstanceType"], capacity.instance_type),
        "capacity.availability_zone": (found["AvailabilityZone"], capacity.availability_zone),
    }
    wrong = {field: its for field, its in pairs.items() if its[0] != its[1]}
    if not wrong:
        return None
    said = "; ".join(
        f"{field} is {has}, the file has {wants}" for field, (has, wants) in wrong.items()
    )
    return said, f"set {', '.join(wrong)}, or another capacity.reservation_id"


def _ended(found: dict[str, Any]) -> tuple[str, str] | None:
    left = _left(found)
    if found["State"] != "active" and found["State"] not in _COMING:
        said = str(found["State"])
    elif left is not None and left <= datetime.timedelta():
        said = f"ends at {_time(found['EndDate'])}, and EKS takes its nodes away 40 minutes before"
    else:
        return None
    return said, "buy another, and set capacity.reservation_id"


def _used_up(place: Place, found: dict[str, Any]) -> tuple[str, str] | None:
    """Fewer instances are left than are wanted, beside those that are the experiment's own."""
    wanted, total = place.experiment.capacity.nodes, found["TotalInstanceCount"]
    left = found.get("AvailableInstanceCount", total) if found["State"] == "active" else total
    if left < wanted:
        left += _own(place, found["CapacityReservationId"])
    if left >= wanted:
        return None
    said = f"{left} of {total} instances are free, {wanted} are wanted (capacity.nodes)"
    return said, "end the instances that use it, or set capacity.nodes"


def _own(place: Place, reservation: str) -> int:
    """The experiment's nodes that run in it."""
    filters = {
        "tag:eks:cluster-name": place.name,
        "capacity-reservation-id": reservation,
        "instance-state-name": "running",
    }
    asked = [{"Name": name, "Values": [value]} for name, value in filters.items()]
    pages = place.client("ec2").get_paginator("describe_instances").paginate(Filters=asked)
    return sum(len(its["Instances"]) for page in pages for its in page["Reservations"])


def _time_left(capacity: Capacity, found: dict[str, Any], said: str) -> Finding:
    """Warns if it ends before the guard would."""
    subject, left = str(capacity.reservation_id), _left(found)
    if left is None:
        return ok(subject, f"{said}, without an end")
    hours = left.total_seconds() / 3600
    said = f"{said}, {hours:.1f} hours left until EKS takes the nodes away"
    if hours < capacity.max_hours:
        remedy = (
            f"what takes longer is cut off: capacity.max_hours is {capacity.max_hours:g}; "
            "measure less, or buy a longer one"
        )
        return warning(subject, said, remedy)
    return ok(subject, said)


def _left(found: dict[str, Any]) -> datetime.timedelta | None:
    """Until its nodes go. None if it has no end."""
    end: datetime.datetime | None = found.get("EndDate")
    if end is None:
        return None
    early = SCALED_IN if found.get("ReservationType") == "capacity-block" else datetime.timedelta()
    return end - early - datetime.datetime.now(datetime.UTC)


def _time(when: datetime.datetime) -> str:
    return f"{when.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"
