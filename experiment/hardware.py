"""Instance types an experiment can run on: what differs by type stands in its entry.

Figures: AWS Neuron documentation, "Trainium2 architecture" and "Amazon EC2 Trn2 Architecture". 124
of the 128 GiB of a trn2.3xlarge are free (vllm-neuron fa252127, ``run_tp4.sh`` of the DFlash
example). It takes one EFA interface, which connects nodes, and no service of ours spans nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """Resources that one node of this type offers to pods, and how it is bought."""

    name: str
    platform: str = "trn2"
    """Neuron's name of the devices' generation, for compilers that have no device to ask."""
    devices: int
    cores_per_device: int = 8
    """Physical NeuronCores; ``logical_core_size`` of them make one logical core."""
    hbm_gib_per_device: int = 96
    vcpus: int
    memory_gib: int
    pod_cpus_per_device: int
    pod_gib_per_device: int = 80
    """A pod's memory with each device. Compiling and the node's own pods need the rest."""
    claim_templates: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """The article's names of claim templates, by devices and logical core size."""
    network_interfaces: int
    """EFA interfaces, one per network card. With 0, the node has a plain interface."""


TRN2_48XLARGE: Final = InstanceType(
    name="trn2.48xlarge",
    devices=16,
    vcpus=192,
    memory_gib=2048,
    pod_cpus_per_device=10,
    claim_templates={(8, 2): "xl-trn2", (16, 2): "xxl-trn2"},
    network_interfaces=16,
)

TRN2_3XLARGE: Final = InstanceType(
    name="trn2.3xlarge",
    devices=1,
    vcpus=12,
    memory_gib=128,
    pod_cpus_per_device=8,  # the node's own pods take as much as on a large one
    network_interfaces=0,
)

INSTANCE_TYPES: Final = {each.name: each for each in (TRN2_48XLARGE, TRN2_3XLARGE)}


@dataclass(frozen=True)
class CompileInstance:
    """A CPU instance that compiles one graph at a time, and what a compile requests of it."""

    name: str
    vcpus: int
    memory_gib: int
    usd_per_hour: float
    """On demand in us-east-1 on 2026-01-19: aws/karpenter-provider-aws 031e72b,
    pkg/providers/pricing/zz_generated.pricing_aws.go. us-east-2 is commonly quoted the same."""
    most_weights_gib: float
    """The most weights, of target and draft together."""
    compile_vcpus: int
    compile_gib: int
    """Both are requested. A compile uses all CPUs that are idle."""
    compile_limit_gib: int


COMPILE_INSTANCES: Final = (
    # 67 GB of weights were compiled for 4 cores with the 12 vCPUs and 124 GiB of a trn2.3xlarge, by
    # "careful memory management", in 12 to 42 minutes (neuronx-distributed-inference, README of
    # contrib/models/Qwen3.5-35B-A3B). A third of these weights need no care. The request fits
    # beside a service there.
    CompileInstance("r7i.4xlarge", 16, 128, 1.0584, 24, 1, 32, 112),
    # Half the CPUs of a trn2.48xlarge, and room for the 600 GiB that a compile may take.
    CompileInstance("r7i.24xlarge", 96, 768, 6.3504, float("inf"), 16, 400, 600),
)
"""The smallest first."""

SYSTEM_INSTANCE: Final = "m7i.xlarge"
SYSTEM_NODES: Final = 2
"""One node in each of two zones, for CoreDNS and the add-ons' controllers."""

MOST_TRAINIUM_NODES: Final = 8
"""The limit for any experiment."""
MOST_COMPILE_NODES: Final = 4
"""At most 384 vCPUs of the quota "Running On-Demand Standard instances" (L-1216C47A)."""


def compile_nodes(graphs: int) -> int:
    """CPU nodes that compile ``graphs`` graphs: one each, up to ``MOST_COMPILE_NODES``."""
    return min(graphs, MOST_COMPILE_NODES)


def compile_instance(weights_gib: float) -> CompileInstance:
    """The smallest instance whose memory fits a compile of so many GiB of weights."""
    return next(each for each in COMPILE_INSTANCES if weights_gib <= each.most_weights_gib)
