"""Nodes come and go as the node groups' sizes say, as their Auto Scaling groups would have it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from charts.names import NODE_GROUP_LABEL, TRAINIUM_NODES
from experiment import Experiment
from rehearsal.aws.client import Aws
from rehearsal.cluster import hardware
from rehearsal.cluster.api import Api, Manifest
from rehearsal.cluster.nodes import Nodes
from rehearsal.cluster.statuses import now

_POLL_SECONDS: Final = 0.5
_DISK_GIB: Final = 20
"""EKS's own choice."""
_NVME_GIB: Final = 6800
"""Of a Trainium node's instance storage, of which its user data makes one disk."""


@dataclass(frozen=True)
class Change:
    """A size that a group was seen to have from then on."""

    at: str
    group: str
    """Value of the label of its nodes, or else its name."""
    size: int


class Groups:
    """The nodes of one cluster. Within ``with`` they follow their groups."""

    def __init__(self, experiment: Experiment, aws: Aws, api: Api, nodes: Nodes) -> None:
        self._experiment, self._aws, self._api, self._nodes = experiment, aws, api, nodes
        self._eks, self._ec2 = aws.client("eks"), aws.client("ec2")
        self.changes: Final[list[Change]] = []
        """In the order in which they were seen."""
        self._standing: dict[str, list[str]] = {}
        self._made = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Groups:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises what has kept nodes from following, if anything has."""
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        try:
            while not self._over.wait(_POLL_SECONDS):
                self._follow()
        except Exception as failure:
            self._failure = failure

    def _follow(self) -> None:
        groups = {group["nodegroupArn"]: group for group in self._groups()}
        for arn, group in groups.items():
            self._resize(arn, group, group["scalingConfig"]["desiredSize"])
        for arn in self._standing.keys() - groups.keys():
            while self._standing[arn]:
                self._take_away(self._standing[arn].pop())
            del self._standing[arn]

    def _groups(self) -> list[dict[str, Any]]:
        """None where there is no cluster, or not yet."""
        name = self._experiment.name
        if name not in self._eks.list_clusters()["clusters"]:
            return []
        try:
            return [
                self._eks.describe_nodegroup(clusterName=name, nodegroupName=group)["nodegroup"]
                for group in self._eks.list_nodegroups(clusterName=name)["nodegroups"]
            ]
        except self._eks.exceptions.ResourceNotFoundException:  # deleted in between
            return []

    def _resize(self, arn: str, group: Mapping[str, Any], size: int) -> None:
        known = arn in self._standing
        names = self._standing.setdefault(arn, [])
        if not known or len(names) != size:
            label = group.get("labels", {}).get(NODE_GROUP_LABEL, group["nodegroupName"])
            self.changes.append(Change(now(), label, size))
        while len(names) < size:
            names.append(self._bring(group))
        while len(names) > size:
            self._take_away(names.pop())

    def _bring(self, group: Mapping[str, Any]) -> str:
        labels = group.get("labels", {})
        trainium = labels.get(NODE_GROUP_LABEL) == TRAINIUM_NODES
        name = f"{labels.get(NODE_GROUP_LABEL, 'system')}-{self._made}"
        self._made += 1
        instance, disk = self._machine(group)
        vcpus, memory = self._size(instance)
        room = hardware.allocatable(vcpus, memory, disk_gib=disk, pods=58)
        zones = self._zones(group["subnets"])
        zone = zones[self._made % len(zones)]
        its = hardware.node(
            name, instance, zone, room, labels=labels, taints=group.get("taints", [])
        )
        self._nodes.add(its)
        if trainium:
            self._api.create(hardware.resource_slice(name, self._experiment.capacity.instance))
        return name

    def _take_away(self, name: str) -> None:
        """As a managed node group does it: no new pods, then those that are there, then the node.

        DaemonSets have no pods here.
        """
        node = self._api.get("Node", name)
        if node is None:
            return
        self._api.patch(node, {"spec": {"unschedulable": True}})
        while there := self._pods_on(name):
            for pod in there:
                self._api.delete(pod)
            if self._over.wait(_POLL_SECONDS):
                break
        self._nodes.forget(name)

    def _pods_on(self, node: str) -> list[Manifest]:
        return [pod for pod in self._api.all("Pod") if pod["spec"].get("nodeName") == node]

    def _machine(self, group: Mapping[str, Any]) -> tuple[str, int]:
        """The instance type and the GiB of its disk, from the group or its launch template."""
        instance, disk = group["instanceTypes"][0], group.get("diskSize") or _DISK_GIB
        if told := group.get("launchTemplate"):
            (version,) = self._ec2.describe_launch_template_versions(
                LaunchTemplateId=told["id"], Versions=[str(told["version"])]
            )["LaunchTemplateVersions"]
            data = version["LaunchTemplateData"]
            # EKS lets one of both name it; moto's group has one in any case.
            instance = data.get("InstanceType", instance)
            for device in data.get("BlockDeviceMappings", []):
                disk = device.get("Ebs", {}).get("VolumeSize", disk)
        own = self._experiment.capacity.instance
        return str(instance), _NVME_GIB if instance == own.name else int(disk)

    def _size(self, instance: str) -> tuple[int, int]:
        """vCPUs and GiB of memory."""
        own = self._experiment.capacity.instance
        if instance == own.name:
            return own.vcpus, own.memory_gib
        (found,) = self._ec2.describe_instance_types(InstanceTypes=[instance])["InstanceTypes"]
        vcpus = found["VCpuInfo"]["DefaultVCpus"]
        return int(vcpus), int(found["MemoryInfo"]["SizeInMiB"]) // 1024

    def _zones(self, subnets: Sequence[str]) -> list[str]:
        found = self._ec2.describe_subnets(SubnetIds=list(subnets))["Subnets"]
        return sorted(subnet["AvailabilityZone"] for subnet in found)
