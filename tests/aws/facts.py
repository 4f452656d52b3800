"""Facts of an account that nobody creates by a call, and that moto does not know.

Quotas, Capacity Blocks and reservations, and which versions EKS offers. Answers have the shapes of
botocore's service models. Other facts are moto's own, e.g. instance types and zones.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

Asked = Mapping[str, Any]
"""Parameters of a call."""


@dataclass(frozen=True)
class Facts:
    """An account that was granted what one Trainium node needs."""

    quotas: Mapping[str, float] = field(
        default_factory=lambda: {
            "L-2C3B7624": 192,  # vCPUs of Trn instances
            "L-1216C47A": 512,  # vCPUs of standard instances
            "L-1194D53C": 100,  # EKS clusters
        }
    )
    """What was granted, by code."""
    default_quotas: Mapping[str, float] = field(
        default_factory=lambda: {
            "L-2C3B7624": 0,
            "L-6B0D517C": 0,
            "L-1216C47A": 5,
            "L-0263D0A3": 5,  # Elastic IP addresses
            "L-F678F1CE": 5,  # VPCs
            "L-1194D53C": 100,
        }
    )
    """What an account has to which nothing was granted."""
    reservations: Sequence[Mapping[str, Any]] = ()
    """As DescribeCapacityReservations has them, with times in ISO 8601."""
    cluster_versions: Mapping[str, str] = field(
        default_factory=lambda: {
            "1.34": "2026-12-02",
            "1.35": "2027-03-27",
            "1.36": "2027-08-02",
        }
    )
    """The day on which the standard support of each Kubernetes version ends."""
    addons: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Versions of each add-on, the default first. All are for every Kubernetes version."""

    offerings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The zones of each instance type. Empty: as moto has them."""

    def but(self, changes: Mapping[str, Any]) -> Facts:
        """The same, with other values of some fields."""
        return dataclasses.replace(self, **changes)

    @property
    def answers(self) -> Mapping[str, Callable[[Asked], object]]:
        """By the name of the call, what answers it. An answer may raise ClientError."""
        answers: dict[str, Callable[[Asked], object]] = {
            "service-quotas:GetServiceQuota": lambda asked: _quota(self.quotas, asked),
            "service-quotas:GetAWSDefaultServiceQuota": lambda asked: _quota(
                self.default_quotas, asked
            ),
            "ec2:DescribeCapacityReservations": self._reservations,
            "eks:DescribeClusterVersions": self._cluster_versions,
            "eks:DescribeAddonVersions": self._addons,
        }
        if self.offerings:
            answers["ec2:DescribeInstanceTypeOfferings"] = self._offerings
        return answers

    def _reservations(self, asked: Asked) -> object:
        known = {its["CapacityReservationId"]: its for its in self.reservations}
        wanted = asked.get("CapacityReservationIds") or [*known]
        for name in wanted:
            if name not in known:
                raise _refused(
                    "InvalidCapacityReservationId.NotFound",
                    f"The capacity reservation '{name}' was not found.",
                )
        return {"CapacityReservations": [_with_times(known[name]) for name in wanted]}

    def _offerings(self, asked: Asked) -> object:
        """By zone, filtered by instance type."""
        wanted = {
            name
            for its in asked.get("Filters", ())
            if its["Name"] == "instance-type"
            for name in its["Values"]
        }
        return {
            "InstanceTypeOfferings": [
                {"InstanceType": name, "LocationType": "availability-zone", "Location": zone}
                for name, zones in self.offerings.items()
                if name in wanted
                for zone in zones
            ]
        }

    def _cluster_versions(self, asked: Asked) -> object:
        wanted = asked.get("clusterVersions") or [*self.cluster_versions]
        versions = [*_versions({v: e for v, e in self.cluster_versions.items() if v in wanted})]
        return {"clusterVersions": versions}

    def _addons(self, asked: Asked) -> object:
        kubernetes = asked.get("kubernetesVersion", "")
        return {
            "addons": [
                {"addonName": name, "addonVersions": [*_addon_versions(versions, kubernetes)]}
                for name, versions in self.addons.items()
                if asked.get("addonName", name) == name
            ]
        }


def _quota(values: Mapping[str, float], asked: Asked) -> object:
    code = asked["QuotaCode"]
    if code not in values:
        raise _refused("NoSuchResourceException", f"No quota {code} was applied")
    return {
        "Quota": {
            "ServiceCode": asked["ServiceCode"],
            "QuotaCode": code,
            "Value": values[code],
            "Adjustable": True,
        }
    }


def _with_times(reservation: Mapping[str, Any]) -> Mapping[str, Any]:
    times = {
        name: datetime.datetime.fromisoformat(reservation[name])
        for name in ("StartDate", "EndDate")
        if name in reservation
    }
    return {**reservation, **times}


def _versions(ends: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    for version, text in ends.items():
        end = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
        supported = end > datetime.datetime.now(datetime.UTC)
        status = "standard-support" if supported else "extended-support"
        yield {
            "clusterVersion": version,
            "endOfStandardSupportDate": end,
            "status": status,
            "versionStatus": status.upper().replace("-", "_"),
        }


def _addon_versions(versions: Sequence[str], kubernetes: str) -> Iterator[Mapping[str, Any]]:
    for version in versions:
        its = {"clusterVersion": kubernetes, "defaultVersion": version == versions[0]}
        yield {"addonVersion": version, "compatibilities": [its]}


def _refused(code: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")
