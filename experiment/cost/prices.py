"""What AWS asks for what stands beside the Trainium nodes, in us-east-2.

The price of a Trainium node is the experiment's own (``capacity.price``), since it is bought in
many ways. These are list prices; none was read on AWS's own pages, which say what holds today.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from experiment.hardware import COMPILE_INSTANCE

HOURS_PER_MONTH: Final = 730
"""AWS's own month: 365 days of 24 hours, a twelfth."""


@dataclass(frozen=True)
class ListPrice:
    """A price, where it was read, and when."""

    usd: float
    unit: str
    """What it buys: ``hour``, ``GiB-month``, ``month``, ``GB``."""
    as_of: datetime.date
    source: str
    page: str
    """AWS's own, which says what it is today."""

    @property
    def usd_per_hour(self) -> float:
        """Of what is paid for by the hour or by the month."""
        return self.usd if self.unit == "hour" else self.usd / HOURS_PER_MONTH


def _quoted(usd: float, unit: str, page: str) -> ListPrice:
    return ListPrice(
        usd,
        unit,
        datetime.date(2026, 11, 22),
        "as commonly quoted for us-east-2",
        f"https://aws.amazon.com/{page}/pricing/",
    )


# The list is of us-east-1. In us-east-2 these families are commonly quoted at the same prices.
_LIST: Final = COMPILE_INSTANCE.source
_ON_DEMAND: Final = "https://aws.amazon.com/ec2/pricing/on-demand/"

SYSTEM_NODE: Final = ListPrice(0.2016, "hour", datetime.date(2026, 1, 19), _LIST, _ON_DEMAND)
"""m7i.xlarge, on demand."""
COMPILE_NODE: Final = ListPrice(
    COMPILE_INSTANCE.usd_per_hour,
    "hour",
    datetime.date.fromisoformat(COMPILE_INSTANCE.as_of),
    COMPILE_INSTANCE.source,
    _ON_DEMAND,
)

SPOT_USD: Final = (8.60, 15.34)
"""Lowest and highest that were seen for a trn2.48xlarge an hour on spot: in us-east-2, the lowest
in us-east-2c, before 2026-11-21."""

CONTROL_PLANE: Final = _quoted(0.10, "hour", "eks")
"""A Kubernetes version in standard support. After it, 0.60: of 1.35, from 2027-03-27 on."""
NAT_GATEWAY: Final = _quoted(0.045, "hour", "vpc")
PUBLIC_ADDRESS: Final = _quoted(0.005, "hour", "vpc")
INTERFACE_ENDPOINT: Final = _quoted(0.01, "hour", "privatelink")
"""In one zone."""
GP3: Final = _quoted(0.08, "GiB-month", "ebs")
"""With the 3,000 operations and 125 MiB a second that it comes with."""
GP3_THROUGHPUT: Final = _quoted(0.04, "MiBps-month", "ebs")
"""Each MiB a second above 125."""
GP3_OPERATIONS: Final = _quoted(0.005, "IOPS-month", "ebs")
"""Each operation a second above 3,000."""
KEY: Final = _quoted(1.0, "month", "kms")

NAT_TRAFFIC: Final = _quoted(0.045, "GB", "vpc")
STORAGE: Final = _quoted(0.023, "GiB-month", "s3")
IMAGES: Final = _quoted(0.10, "GiB-month", "ecr")
LOGS: Final = _quoted(0.03, "GiB-month", "cloudwatch")
"""Stored, after they were taken in."""
