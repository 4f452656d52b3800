"""Instance types an experiment can run on.

Figures: AWS Neuron documentation, "Trainium2 architecture" and "Amazon EC2 Trn2 instances".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class InstanceType:
    """What one node of this type offers to pods."""

    name: str
    devices: int
    cores_per_device: int
    """Physical NeuronCores; ``logical_core_size`` of them make one logical core."""
    hbm_gib_per_device: int
    vcpus: int
    memory_gib: int
    network_interfaces: int
    """EFA interfaces, one per network card."""
    sold_on_demand: bool
    """Whether the price list has an on-demand price for it."""


TRN2_48XLARGE: Final = InstanceType(
    name="trn2.48xlarge",
    devices=16,
    cores_per_device=8,
    hbm_gib_per_device=96,
    vcpus=192,
    memory_gib=2048,
    network_interfaces=16,
    # Read on 2026-07-28: no on-demand SKU in any region.
    sold_on_demand=False,
)

INSTANCE_TYPES: Final = {instance.name: instance for instance in (TRN2_48XLARGE,)}


@dataclass(frozen=True)
class CompileInstance:
    """A CPU instance that compiles one graph at a time."""

    name: str
    vcpus: int
    memory_gib: int
    usd_per_hour: float
    """On demand."""


COMPILE_INSTANCE: Final = CompileInstance(
    name="r7i.24xlarge",
    # Half the CPUs of a trn2.48xlarge, and room for the 600 GiB that a compile may take.
    vcpus=96,
    memory_gib=768,
    # In us-east-1 on 2026-01-19: aws/karpenter-provider-aws 031e72b,
    # pkg/providers/pricing/zz_generated.pricing_aws.go. us-east-2 is commonly quoted the same.
    usd_per_hour=6.3504,
)

MOST_TRAINIUM_NODES: Final = 8
"""Of any experiment: a node group keeps its sizes for life (docs/decisions/0027)."""
MOST_COMPILE_NODES: Final = 4
"""384 vCPUs of the quota "Running On-Demand Standard instances" (L-1216C47A)."""


def compile_nodes(graphs: int) -> int:
    """CPU nodes that compile ``graphs`` graphs: one each, up to ``MOST_COMPILE_NODES``."""
    return min(graphs, MOST_COMPILE_NODES)
