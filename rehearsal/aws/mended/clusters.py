"""EKS in CloudFormation: clusters and node groups in moto's own EKS, the rest written down."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moto.cloudformation.parsing import get_model_map
from moto.ec2.models import ec2_backends
from moto.eks.models import Cluster, EKSBackend, Nodegroup, eks_backends

from rehearsal.aws.mended.base import Resource, Where, arn, camel

KUBECONFIG: Final = "REHEARSAL_KUBECONFIG"
"""Environment variable of the server: an administrator's kubeconfig of the API server behind the
cluster. It is read when a cluster is made, so that the API server may start later."""


def mend() -> None:
    """Adds the types."""
    for resource in (
        EksCluster,
        EksNodegroup,
        EksAccessEntry,
        EksAddon,
        EksPodIdentityAssociation,
    ):
        get_model_map()[resource.type] = resource  # type: ignore[assignment]


def access_entries(where: Where, cluster: str) -> list[Mapping[str, Any]]:
    """Properties of the cluster's access entries."""
    return [*_entries.get((where, cluster), {}).values()]


_entries: Final[dict[tuple[Where, str], dict[str, Mapping[str, Any]]]] = {}


class EksCluster(Resource):
    """Its API is the API server of ``KUBECONFIG``, if there is one."""

    type = "AWS::EKS::Cluster"
    replaced_by = frozenset({"Name", "RoleArn", "EncryptionConfig"})

    @property
    def physical_resource_id(self) -> str:
        """The cluster's name."""
        return str(self.told.get("Name", self.name))

    def make(self) -> None:
        """Makes it, with the security group that EKS makes for every cluster."""
        network = camel(self.told["ResourcesVpcConfig"])
        ec2 = ec2_backends[self.where.account][self.where.region]
        vpc = ec2.get_subnet(network["subnetIds"][0]).vpc_id
        group = ec2.create_security_group(
            f"eks-cluster-sg-{self.physical_resource_id}", "EKS created security group", vpc_id=vpc
        )
        made = _eks(self.where).create_cluster(
            self.physical_resource_id,
            self.told["RoleArn"],
            network | {"vpcId": vpc, "clusterSecurityGroupId": group.id},
            version=self.told.get("Version"),
            tags=_tags(self.told),
        )
        made.logging = camel(self.told.get("Logging", {}))
        if endpoint := _endpoint():
            made.endpoint, made.certificate_authority = endpoint

    def change(self, earlier: Mapping[str, Any]) -> None:
        """Takes over what can be changed."""
        cluster = self._cluster()
        cluster.version = self.told.get("Version", cluster.version)
        cluster.resources_vpc_config |= camel(self.told["ResourcesVpcConfig"])
        cluster.logging = camel(self.told.get("Logging", {}))

    def remove(self) -> None:
        """Removes it with its security group."""
        group = self._cluster().resources_vpc_config["clusterSecurityGroupId"]
        _eks(self.where).delete_cluster(self.physical_resource_id)
        ec2_backends[self.where.account][self.where.region].delete_security_group(group_id=group)

    def attributes(self) -> Mapping[str, str]:
        """Those that moto's cluster has."""
        cluster = self._cluster()
        return {
            "Arn": cluster.arn,
            "Endpoint": cluster.endpoint,
            "CertificateAuthorityData": cluster.certificate_authority["data"],
            "ClusterSecurityGroupId": cluster.resources_vpc_config["clusterSecurityGroupId"],
            "OpenIdConnectIssuerUrl": cluster.identity["oidc"]["issuer"],
        }

    def _cluster(self) -> Cluster:
        return _eks(self.where).describe_cluster(self.physical_resource_id)


class EksNodegroup(Resource):
    """A node group of moto's EKS. CloudFormation names it ``cluster/group``."""

    type = "AWS::EKS::Nodegroup"
    replaced_by = frozenset(
        {
            "AmiType",
            "CapacityType",
            "ClusterName",
            "DiskSize",
            "InstanceTypes",
            "NodegroupName",
            "NodeRole",
            "Subnets",
        }
    )

    @property
    def physical_resource_id(self) -> str:
        """Cluster and group."""
        return f"{self.told['ClusterName']}/{self._group_name}"

    @property
    def _group_name(self) -> str:
        return str(self.told.get("NodegroupName", self.name))

    def make(self) -> None:
        """Makes it, at the desired size that it has from the beginning."""
        told = self.told
        _eks(self.where).create_nodegroup(
            told["ClusterName"],
            told["NodeRole"],
            self._group_name,
            told["Subnets"],
            scaling_config=camel(told["ScalingConfig"]),
            instance_types=told.get("InstanceTypes"),
            ami_type=told.get("AmiType"),
            labels=dict(told.get("Labels", {})),
            taints=camel(told.get("Taints", [])),
            tags=dict(told.get("Tags", {})),
            launch_template=camel(told.get("LaunchTemplate")),
            capacity_type=told.get("CapacityType"),
            version=_eks(self.where).describe_cluster(told["ClusterName"]).version,
            release_version=told.get("ReleaseVersion"),
        )

    def change(self, earlier: Mapping[str, Any]) -> None:
        """Asks for other sizes only if the template says others than before.

        A size that the template does not give stays as it is: API reference of EKS,
        NodegroupScalingConfig.
        """
        group = self._group()
        if self.told["ScalingConfig"] != earlier["ScalingConfig"]:
            _eks(self.where).update_nodegroup_config(
                self.told["ClusterName"],
                self._group_name,
                scaling_config=camel(self.told["ScalingConfig"]),
            )
        group.labels = dict(self.told.get("Labels", {}))
        group.taints = camel(self.told.get("Taints", []))
        group.release_version = self.told.get("ReleaseVersion", group.release_version)
        group.launch_template = camel(self.told.get("LaunchTemplate"))

    def remove(self) -> None:
        """Removes it, and so its nodes."""
        _eks(self.where).delete_nodegroup(self.told["ClusterName"], self._group_name)

    def attributes(self) -> Mapping[str, str]:
        """All that the type has."""
        return {
            "Arn": self._group().arn,
            "ClusterName": self.told["ClusterName"],
            "NodegroupName": self._group_name,
            "Id": self.physical_resource_id,
        }

    def _group(self) -> Nodegroup:
        return _eks(self.where).describe_nodegroup(self.told["ClusterName"], self._group_name)


class EksAccessEntry(Resource):
    """Written down: ``rehearsal.aws.authenticator`` acts by it."""

    type = "AWS::EKS::AccessEntry"
    replaced_by = frozenset({"ClusterName", "PrincipalArn"})

    def make(self) -> None:
        """Writes it down."""
        _entries.setdefault(self._key, {})[self.told["PrincipalArn"]] = self.told

    def change(self, earlier: Mapping[str, Any]) -> None:
        """Writes it down anew."""
        self.make()

    def remove(self) -> None:
        """Crosses it out."""
        _entries[self._key].pop(self.told["PrincipalArn"])

    @property
    def _key(self) -> tuple[Where, str]:
        return self.where, self.told["ClusterName"]


class EksAddon(Resource):
    """Only written down: there is no container that it could run."""

    type = "AWS::EKS::Addon"

    @property
    def physical_resource_id(self) -> str:
        """Cluster and add-on."""
        return f"{self.told['ClusterName']}|{self.told['AddonName']}"

    def attributes(self) -> Mapping[str, str]:
        """All that the type has."""
        name = f"addon/{self.told['ClusterName']}/{self.told['AddonName']}/rehearsal"
        return {"Arn": arn(self.where, "eks", name)}


class EksPodIdentityAssociation(Resource):
    """Only written down: the rehearsal's pods have the embedded account's only credentials."""

    type = "AWS::EKS::PodIdentityAssociation"

    def attributes(self) -> Mapping[str, str]:
        """All that the type has."""
        name = f"podidentityassociation/{self.told['ClusterName']}/{self.name}"
        return {"AssociationArn": arn(self.where, "eks", name), "AssociationId": self.name}


def _eks(where: Where) -> EKSBackend:
    return eks_backends[where.account][where.region]


def _endpoint() -> tuple[str, dict[str, str]] | None:
    """The API server's address and authority, as a kubeconfig has them."""
    if KUBECONFIG not in os.environ:
        return None
    (its,) = json.loads(Path(os.environ[KUBECONFIG]).read_text())["clusters"]
    cluster = its["cluster"]
    return cluster["server"], {"data": cluster["certificate-authority-data"]}


def _tags(told: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in told.get("Tags", [])}
