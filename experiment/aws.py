"""The place where an experiment runs: region, zones, and an existing VPC and cluster."""

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from experiment.fields import (
    DISTINCT,
    Cidr,
    Origin,
    Region,
    Strict,
    Zone,
    matching,
    of_aws,
    refused,
)

PRIVATE: Final = (
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"),
    *("169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
)


VpcId = Annotated[str, of_aws("vpc", "a VPC")]
SubnetId = Annotated[str, of_aws("subnet", "a subnet")]
SecurityGroupId = Annotated[str, of_aws("sg", "a security group")]
ClusterName = Annotated[
    str,
    matching(r"^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", "an EKS cluster's name: A-Z, a-z, 0-9, - and _"),
]
RoleArn = Annotated[str, matching(r"^arn:aws:iam::\d{12}:role/[\w+=,.@/-]+$", "the ARN of a role")]
TagKey = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9 _.:/=+@-]{1,128}$", "1 to 128 of A-Z, a-z, 0-9, space and _ . : / = + - @"
    ),
]
TagValue = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9 _.:/=+@-]{0,256}$", "0 to 256 of A-Z, a-z, 0-9, space and _ . : / = + - @"
    ),
]
OWN_TAGS: Final = ("Experiment", "Name", "Guarded")
"""Keys that the stacks set themselves."""


class Aws(Strict):
    """Where the experiment runs. What is not named here is made, and destroyed with it."""

    region: Region = Field(description="AWS region that offers the instance type.")
    availability_zones: Annotated[tuple[Zone, ...], DISTINCT] = Field(
        min_length=2,
        max_length=3,
        description="Zones of the VPC. The EKS control plane needs two; one of them must be "
        "capacity.availability_zone.",
    )
    cpu_zones: Annotated[tuple[Zone, ...], DISTINCT] = Field(
        (),
        description="Those of availability_zones in which CPU nodes may stand: EKS fails a group "
        "with a zone that does not offer its instance type. Default: all.",
    )
    api_access: tuple[Cidr, ...] = Field(
        (),
        description="CIDR blocks that may reach the Kubernetes API: public ones; with vpc also "
        "private ones. Empty: from the VPC only, of an existing one from the cluster's nodes only.",
    )
    vpc: VpcId | None = Field(
        None, description="An existing VPC, to be used in place of a new one."
    )
    subnets: Annotated[tuple[SubnetId, ...], DISTINCT] = Field(
        (),
        description="Private subnets of vpc with a way out, one in each of availability_zones, in "
        "their order.",
    )
    cluster: ClusterName | None = Field(
        None, description="An existing EKS cluster in vpc, to be used in place of a new one."
    )
    cluster_security_group: SecurityGroupId | None = Field(
        None,
        description="The security group that EKS has made for cluster: aws eks describe-cluster "
        "calls it clusterSecurityGroupId.",
    )
    administrator_role: RoleArn | None = Field(
        None,
        description="A role that may administrate cluster, for commands to assume. By default one "
        "is made, with an access entry.",
    )
    dra_driver: Origin = Field(
        Origin.MAKE,
        description="there: cluster has Neuron's DRA driver, somebody's or another experiment's, "
        "and it is left as it is. make: the experiment makes it, and a destroy removes it.",
    )

    tags: Annotated[Mapping[TagKey, TagValue], Field(max_length=40)] = Field(
        default_factory=dict,
        description="Tags for every resource that takes some, such as an owner and a cost centre "
        "that a tag policy asks for. A Capacity Block gets its own when it is bought.",
    )

    @model_validator(mode="after")
    def _tags_are_free(self) -> Self:
        # IAM compares keys without their case.
        keys = [key.lower() for key in self.tags]
        for number, (key, lowered) in enumerate(zip(self.tags, keys, strict=True)):
            if lowered.startswith("aws:") or lowered in [own.lower() for own in OWN_TAGS]:
                own = ", ".join(OWN_TAGS)
                raise refused("tags", f"must not have {key}: aws: is AWS's; {own} are set already")
            if lowered in keys[:number]:
                raise refused("tags", f"must have {key} once, whatever its case")
        return self

    @model_validator(mode="after")
    def _zones_are_of_the_region(self) -> Self:
        for index, zone in enumerate(self.availability_zones):
            if not zone.startswith(self.region):
                raise refused(f"availability_zones[{index}]", f"must be a zone of {self.region}")
        for index, zone in enumerate(self.cpu_zones):
            if zone not in self.availability_zones:
                allowed = ", ".join(self.availability_zones)
                raise refused(f"cpu_zones[{index}]", f"must be in availability_zones: {allowed}")
        return self

    @property
    def private_access(self) -> tuple[str, ...]:
        """The blocks of ``api_access`` that reach the API from within the VPC."""
        return tuple(filter(is_private, self.api_access))


def is_private(block: str) -> bool:
    """Whether the block has a private address."""
    network = ipaddress.IPv4Network(block)
    return any(network.overlaps(ipaddress.IPv4Network(private)) for private in PRIVATE)
