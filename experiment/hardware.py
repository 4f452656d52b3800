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

    def logical_cores(self, devices: int, logical_core_size: int) -> int:
        """Logical NeuronCores of ``devices`` devices: the tensor-parallel degree they carry."""
        return devices * self.cores_per_device // logical_core_size


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
