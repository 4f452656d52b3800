"""Everything that is billed by the hour, with its price in us-east-2.

The price of a Trainium node is the experiment's own (``capacity.price``), because nodes are bought
in many ways. The others are list prices. None was read on AWS's own pages, which have today's
prices. ``stacks`` decides how many of each run and how large they are; tests/stacks/test_nodes.py
compares the two.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from experiment.hardware import SYSTEM_INSTANCE, SYSTEM_NODES, compile_nodes
from experiment.schema import CompileNode, Experiment
from experiment.variants import variants

HOURS_PER_MONTH: Final = 730
"""AWS's own month: 365 days of 24 hours, a twelfth."""

# USD an hour, as commonly quoted for us-east-2 on 2026-11-22; the nodes' by the source of
# CompileInstance.usd_per_hour.
SYSTEM_NODE: Final = 0.2016
CONTROL_PLANE: Final = 0.10
"""The price for a Kubernetes version in standard support. Afterwards it is 0.60: for 1.35, from
2027-03-27 on."""
NAT_GATEWAY: Final = 0.045
PUBLIC_ADDRESS: Final = 0.005
INTERFACE_ENDPOINT: Final = 0.01
"""In one zone."""
KEY: Final = 1.0 / HOURS_PER_MONTH
GP3_GIB: Final = 0.08 / HOURS_PER_MONTH
"""The first 3,000 operations and 125 MiB a second are included."""
GP3_MIBPS: Final = 0.04 / HOURS_PER_MONTH
"""Each MiB a second above 125."""
GP3_IOPS: Final = 0.005 / HOURS_PER_MONTH
"""Each operation a second above 3,000."""

# USD for a GiB and a month.
STORAGE: Final = 0.023
LOGS: Final = 0.03
"""Stored, after they were taken in."""


class CostGroup(StrEnum):
    """The lifecycle that a cost item follows."""

    NETWORK = "network"
    CLUSTER = "cluster"
    COMPILE = "compile nodes"
    TRAINIUM = "Trainium nodes"


ALWAYS: Final = frozenset({CostGroup.NETWORK, CostGroup.CLUSTER})
"""Groups that run from the deploy until the stacks are deleted."""


@dataclass(frozen=True)
class Volume:
    """A gp3 volume. Its first 125 MiB a second and 3,000 operations a second cost nothing more."""

    gib: int
    mibps: int = 125
    iops: int = 3000

    @property
    def usd_per_hour(self) -> float:
        more = (self.mibps - 125) * GP3_MIBPS + (self.iops - 3000) * GP3_IOPS
        return self.gib * GP3_GIB + more


VOLUMES: Final = {
    CostGroup.CLUSTER: Volume(100),
    CostGroup.COMPILE: Volume(1024, mibps=1000, iops=6000),
    CostGroup.TRAINIUM: Volume(100),
}
"""The root volume of each node."""


@dataclass(frozen=True)
class Part:
    """A number of things at one price an hour."""

    name: str
    kind: str
    count: int
    usd_each: float
    """An hour."""
    group: CostGroup

    @property
    def usd_per_hour(self) -> float:
        return self.count * self.usd_each

    @property
    def formula(self) -> str:
        return f"{self.count} {self.kind} x {self.usd_each:.4f}"


def parts(experiment: Experiment) -> tuple[Part, ...]:
    """Everything that an experiment may run, with the most nodes that it has at once."""
    capacity, counts = experiment.capacity, most_nodes(experiment)
    network, cluster = CostGroup.NETWORK, CostGroup.CLUSTER
    price = capacity.price.usd_per_hour

    def nodes(name: str, instance: str, usd: float, group: CostGroup) -> Iterator[Part]:
        """A group's instances and their volumes, if it has any."""
        if count := counts[group]:
            volume = VOLUMES[group]
            disk = f"gp3 of {volume.gib} GiB"
            yield Part(f"{name} nodes", instance, count, usd, group)
            yield Part("their volumes", disk, count, volume.usd_per_hour, group)

    compiling, aws = experiment.compile_instance, experiment.aws
    clusters, vpcs = int(aws.cluster is None), int(aws.vpc is None)
    counted = (
        Part("EKS control plane", "cluster", clusters, CONTROL_PLANE, cluster),
        *nodes("system", SYSTEM_INSTANCE, SYSTEM_NODE, cluster),
        # For the secrets of Kubernetes, the topic of the alarms and the flow logs.
        Part("keys", "KMS keys", clusters + 1 + vpcs, KEY, cluster),
        Part("NAT gateway", "gateway", vpcs, NAT_GATEWAY, network),
        Part("its address", "public IPv4", vpcs, PUBLIC_ADDRESS, network),
        Part("interface endpoints", "in one zone", 3 * vpcs, INTERFACE_ENDPOINT, network),
        *nodes("compile", compiling.name, compiling.usd_per_hour, CostGroup.COMPILE),
        *nodes("Trainium", capacity.instance_type, price, CostGroup.TRAINIUM),
    )
    # A cluster or a VPC that exists is paid for by others.
    return tuple(part for part in counted if part.count)


def most_nodes(experiment: Experiment) -> Mapping[CostGroup, int]:
    """The most nodes of each group. An update of system nodes needs one more."""
    graphs = len({variant.artifact for variant in variants(experiment)})
    on_cpus = experiment.compile_node is CompileNode.CPU
    return {
        CostGroup.CLUSTER: SYSTEM_NODES if experiment.aws.cluster is None else 0,
        CostGroup.COMPILE: compile_nodes(graphs) if on_cpus else 0,
        CostGroup.TRAINIUM: experiment.capacity.nodes,
    }


def usd_per_hour(experiment: Experiment, groups: Collection[CostGroup]) -> float:
    """Price an hour of the parts that run."""
    return sum(part.usd_per_hour for part in parts(experiment) if part.group in groups)
