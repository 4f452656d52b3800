"""Rules on where an experiment runs, and on how its capacity is bought and paid for."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from typing import Final

from experiment.errors import Refusal
from experiment.rules.rule import Refusals, Rule
from experiment.schema import Experiment

WIDEST_API_ACCESS: Final = 8
"""No organisation has more addresses than one /8. The whole internet is also two blocks of /1."""

PRIVATE: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
    )
)

OTHER_PARTITIONS: Final = ("cn-", "us-gov-", "us-iso", "eu-iso", "eusc-")
"""Regions with other domains and registries than the manifests name."""


def _region(experiment: Experiment) -> Refusals:
    region = experiment.aws.region
    if region.startswith(OTHER_PARTITIONS):
        yield Refusal("aws.region", region, "must be a region of the partition aws")


def _zones(experiment: Experiment) -> Refusals:
    aws = experiment.aws
    for index, zone in enumerate(aws.availability_zones):
        field = f"aws.availability_zones[{index}]"
        if not zone.startswith(aws.region):
            yield Refusal(field, zone, f"must be a zone of aws.region, {aws.region}")
        if zone in aws.availability_zones[:index]:
            yield Refusal(field, zone, "is duplicated; list each zone once")
    zone = experiment.capacity.availability_zone
    if zone not in aws.availability_zones:
        allowed = ", ".join(aws.availability_zones)
        yield Refusal(
            "capacity.availability_zone", zone, f"must be in aws.availability_zones: {allowed}"
        )


def _api_access(experiment: Experiment) -> Refusals:
    for index, block in enumerate(experiment.aws.api_access):
        field = f"aws.api_access[{index}]"
        try:
            interface = ipaddress.IPv4Interface(block)
        except ValueError:
            yield Refusal(field, block, "must be an IPv4 network such as 203.0.113.0/24")
            continue
        network = interface.network
        if network.prefixlen < WIDEST_API_ACCESS:
            yield Refusal(
                field, block, f"must be /{WIDEST_API_ACCESS} or narrower; list your own addresses"
            )
        elif any(network.overlaps(private) for private in PRIVATE):
            yield Refusal(field, block, "is private; EKS sees your public address")
        elif interface.ip != network.network_address:
            yield Refusal(field, block, f"has host bits set; the network is {network}")


def _purchase(experiment: Experiment) -> Refusals:
    capacity = experiment.capacity
    if capacity.purchase.reserved and capacity.reservation_id is None:
        yield Refusal(
            "capacity.reservation_id", None, f"is required with purchase {capacity.purchase}"
        )
    if not capacity.purchase.reserved and capacity.reservation_id is not None:
        yield Refusal(
            "capacity.reservation_id",
            capacity.reservation_id,
            "is allowed only with purchase reservation or capacity-block",
        )


def _price(experiment: Experiment) -> Refusals:
    as_of = experiment.capacity.price.as_of
    # UTC+14 is the easternmost time zone: a later date is in the future everywhere.
    today = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=14))).date()
    if as_of > today:
        yield Refusal(
            "capacity.price.as_of", as_of, "is in the future; must be the day the price was read"
        )


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    _region: (),
    _zones: (_region,),
    _api_access: (),
    _purchase: (),
    _price: (),
}
