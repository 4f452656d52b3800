"""What is paid for by the hour while it stands, and with what it comes and goes.

How many there are, and how large, is said by ``stacks``; tests/stacks/test_cost.py compares both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from experiment.cost.prices import (
    COMPILE_NODE,
    CONTROL_PLANE,
    GP3,
    GP3_OPERATIONS,
    GP3_THROUGHPUT,
    INTERFACE_ENDPOINT,
    KEY,
    NAT_GATEWAY,
    PUBLIC_ADDRESS,
    SYSTEM_NODE,
)
from experiment.hardware import COMPILE_INSTANCE, compile_nodes
from experiment.schema import CompileNode, Experiment
from experiment.variants import variants

SYSTEM_INSTANCE: Final = "m7i.xlarge"
SYSTEM_NODES: Final = 2


class Standing(StrEnum):
    """With what a part comes and goes."""

    NETWORK = "network"
    CLUSTER = "cluster"
    COMPILE = "compile nodes"
    TRAINIUM = "Trainium nodes"


ALWAYS: Final = frozenset({Standing.NETWORK, Standing.CLUSTER})
"""What stands from the deploy until the stacks are deleted."""


@dataclass(frozen=True)
class Volume:
    """A gp3 volume. Its first 125 MiB a second and 3,000 operations a second cost nothing more."""

    gib: int
    mibps: int = 125
    iops: int = 3000

    @property
    def usd_per_hour(self) -> float:
        """Storage, and what exceeds the usual throughput and operations."""
        return (
            self.gib * GP3.usd_per_hour
            + (self.mibps - 125) * GP3_THROUGHPUT.usd_per_hour
            + (self.iops - 3000) * GP3_OPERATIONS.usd_per_hour
        )


VOLUMES: Final = {
    Standing.CLUSTER: Volume(100),
    Standing.COMPILE: Volume(1024, mibps=1000, iops=6000),
    Standing.TRAINIUM: Volume(500),
}
"""The root volume of each node."""


@dataclass(frozen=True)
class Part:
    """So many of a kind, of which each costs the same an hour."""

    name: str
    kind: str
    count: int
    usd_each: float
    """An hour."""
    standing: Standing

    @property
    def usd_per_hour(self) -> float:
        """Of all of them."""
        return self.count * self.usd_each

    @property
    def formula(self) -> str:
        """E.g. ``2 m7i.xlarge x 0.2016``."""
        return f"{self.count} {self.kind} x {self.usd_each:.4f}"


def parts(experiment: Experiment) -> tuple[Part, ...]:
    """All that an experiment ever stands, with as many nodes as it ever has at once."""
    capacity, nodes = experiment.capacity, most_nodes(experiment)
    price = capacity.price.usd_per_hour
    network, cluster = Standing.NETWORK, Standing.CLUSTER
    return (
        Part("EKS control plane", "cluster", 1, CONTROL_PLANE.usd_per_hour, cluster),
        *_nodes("system", SYSTEM_INSTANCE, SYSTEM_NODE.usd, cluster, nodes),
        # For the secrets of Kubernetes, the topic of the alarms and the flow logs.
        Part("keys", "KMS keys", 3, KEY.usd_per_hour, cluster),
        Part("NAT gateway", "gateway", 1, NAT_GATEWAY.usd_per_hour, network),
        Part("its address", "public IPv4", 1, PUBLIC_ADDRESS.usd_per_hour, network),
        Part("interface endpoints", "in one zone", 3, INTERFACE_ENDPOINT.usd_per_hour, network),
        *_nodes("compile", COMPILE_INSTANCE.name, COMPILE_NODE.usd, Standing.COMPILE, nodes),
        *_nodes("Trainium", capacity.instance_type, price, Standing.TRAINIUM, nodes),
    )


def most_nodes(experiment: Experiment) -> Mapping[Standing, int]:
    """How many nodes each group has at most. Of system nodes, an update needs one more."""
    graphs = len({variant.artifact for variant in variants(experiment)})
    on_cpus = experiment.compile_node is CompileNode.CPU
    return {
        Standing.CLUSTER: SYSTEM_NODES,
        Standing.COMPILE: compile_nodes(graphs) if on_cpus else 0,
        Standing.TRAINIUM: experiment.capacity.nodes,
    }


def usd_per_hour(experiment: Experiment, standing: Collection[Standing]) -> float:
    """What the parts that stand cost an hour."""
    return sum(part.usd_per_hour for part in parts(experiment) if part.standing in standing)


def usd_per_node_hour(experiment: Experiment, group: Standing) -> float:
    """One node of a group, with its volume."""
    price = {
        Standing.COMPILE: COMPILE_NODE.usd,
        Standing.TRAINIUM: experiment.capacity.price.usd_per_hour,
    }[group]
    return price + VOLUMES[group].usd_per_hour


def _nodes(
    name: str, instance: str, usd: float, standing: Standing, nodes: Mapping[Standing, int]
) -> Iterator[Part]:
    """A group's instances and their volumes, if it ever has any."""
    if count := nodes[standing]:
        volume = VOLUMES[standing]
        yield Part(f"{name} nodes", instance, count, usd, standing)
        yield Part(
            "their volumes", f"gp3 of {volume.gib} GiB", count, volume.usd_per_hour, standing
        )
