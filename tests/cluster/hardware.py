"""The nodes of the stacks as EKS makes them, their devices, and what drivers install."""

from typing import Any, Final

from charts.names import COMPILE_NODES, TRAINIUM_NODES
from charts.namespace import DRIVER
from experiment import hardware
from experiment.hardware import InstanceType
from experiment.variants import variants
from stacks.nodes import VOLUME_GIB
from tests.cluster.api import Manifest
from tests.stacks.templates import node_group
from tests.synthesis import Synthesised

_COLUMNS: Final = 4


def trainium_node(synthesised: Synthesised, number: int, instance: InstanceType) -> Manifest:
    """A node of the Trainium group, of any type.

    One of one device has 470 GB of disk and the addresses of two interfaces (amazon-eks-ami,
    ``instance-info.jsonl``).
    """
    experiment = synthesised.experiment
    disk, pods = (6800, 247) if instance.devices > 1 else (430, 2 * (15 - 1) + 2)
    return _node(
        f"trainium-{number}",
        instance.name,
        experiment.capacity.availability_zone,
        node_group(synthesised, TRAINIUM_NODES),
        allocatable(instance.vcpus, instance.memory_gib, disk_gib=disk, pods=pods),
    )


def system_nodes(synthesised: Synthesised) -> list[Manifest]:
    """The CPU nodes, m7i.xlarge, that the cluster stack asks for."""
    group = node_group(synthesised, None)
    zones = synthesised.experiment.aws.availability_zones
    room = allocatable(4, 16, disk_gib=100, pods=58)
    return [
        _node(f"system-{i}", "m7i.xlarge", zones[i % len(zones)], group, room)
        for i in range(group["ScalingConfig"]["MinSize"])
    ]


def compile_nodes(synthesised: Synthesised) -> list[Manifest]:
    """As many as the stage that compiles starts."""
    group = node_group(synthesised, COMPILE_NODES)
    (zone, *_) = synthesised.experiment.aws.availability_zones
    instance = synthesised.experiment.compile_instance
    room = allocatable(instance.vcpus, instance.memory_gib, disk_gib=VOLUME_GIB, pods=737)
    return [
        _node(f"compile-{i}", instance.name, zone, group, room)
        for i in range(hardware.compile_nodes(len(variants(synthesised.experiment))))
    ]


def _node(
    name: str, instance: str, zone: str, group: dict[str, Any], room: dict[str, str]
) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": instance,
                "topology.kubernetes.io/region": zone[:-1],
                "topology.kubernetes.io/zone": zone,
                **group.get("Labels", {}),
            },
        },
        "spec": {
            "taints": [
                {"key": taint["Key"], "value": taint["Value"], "effect": "NoSchedule"}
                for taint in group.get("Taints", [])
            ]
        },
        "status": {"capacity": room, "allocatable": room},
    }


def allocatable(vcpus: int, memory_gib: int, *, disk_gib: int, pods: int) -> dict[str, str]:
    """What EKS leaves of an instance to its pods, a little less to be safe.

    EKS's node images reserve 60 + 10 + 2 x 5 millicores for the first four cores and 2.5 for each
    further, 255 MiB + 11 MiB a pod, and 100 MiB before eviction (amazon-eks-ami, nodeadm); firmware
    and kernel keep some 2 % of the memory.
    """
    millicores = vcpus * 1000 - 80 - round(2.5 * (vcpus - 4))
    memory_mib = round(memory_gib * 1024 * 0.98) - 255 - 11 * pods - 100
    return {
        "cpu": f"{millicores}m",
        "memory": f"{memory_mib}Mi",
        "ephemeral-storage": f"{round(disk_gib * 0.9)}Gi",
        "pods": str(pods),
    }


def resource_slice(node: str, instance: InstanceType) -> Manifest:
    """What the Neuron DRA driver publishes for a node.

    With some of the attributes that its documentation lists (AWS Neuron, "Dynamic Resource
    Allocation"): 16 devices in a 4x4 grid, a group of 4 a row, a group of 8 two rows.
    """
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-neuron"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(node, number, instance) for number in range(instance.devices)],
        },
    }


DEVICE_CLASS: Final[Manifest] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
"""The class that the driver's Helm chart installs. The chart installs no custom resource.

Its name is documented; the selector is the one that every DRA driver's class has.
"""
CSI_DRIVER: Final[Manifest] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": "s3.csi.aws.com"},
    "spec": {"attachRequired": False, "podInfoOnMount": True, "requiresRepublish": True},
}
"""What the Mountpoint add-on registers: volumes are mounted, with nothing to attach."""


def _device(node: str, number: int, instance: InstanceType) -> dict[str, Any]:
    row = number // _COLUMNS
    groups = {1: number, 4: row, 8: row // 2, 16: 0}
    attributes = {
        "deviceId": {"int": number},
        "instanceType": {"string": instance.name},
        "resourceType": {"string": "neuron_device"},
    }
    # The same for all devices of a group, on one node only. The driver's are hashes.
    qualified = {
        f"resource.aws.com/devicegroup{size}_id": {"string": f"{node}-{size}-{group}"}
        for size, group in groups.items()
        if instance.devices > 1
    }
    return {"name": f"neuron-device-{number}", "attributes": attributes | qualified}
