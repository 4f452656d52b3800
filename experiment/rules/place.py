"""Rules on where an experiment runs: zones, and a VPC and a cluster that exist already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiment.aws import is_private
from experiment.fields import Refusal, Refusals
from experiment.rules.models import Rule
from experiment.schema import Experiment


def _zone(experiment: Experiment) -> Refusals:
    zones = experiment.aws.availability_zones
    if experiment.capacity.availability_zone not in zones:
        allowed = f"must be in aws.availability_zones: {', '.join(zones)}"
        yield Refusal("capacity.availability_zone", allowed)


def _network(experiment: Experiment) -> Refusals:
    aws = experiment.aws
    if aws.vpc is None and aws.subnets:
        yield Refusal("aws.vpc", "is required with aws.subnets: the VPC that they are in")
    if aws.vpc and len(aws.subnets) != len(aws.availability_zones):
        one_each = f"one for each of {', '.join(aws.availability_zones)}, in this order"
        yield Refusal("aws.subnets", f"must be private subnets of {aws.vpc}, {one_each}")
    for index, block in enumerate(aws.api_access):
        if aws.vpc is None and is_private(block):
            why = "is private; EKS sees your public address"
            yield Refusal(f"aws.api_access[{index}]", why)


def _cluster(experiment: Experiment) -> Refusals:
    aws = experiment.aws
    if aws.cluster is None:
        for field in ("cluster_security_group", "administrator_role"):
            if getattr(aws, field):
                yield Refusal(f"aws.{field}", "must be absent without aws.cluster, which is made")
        return
    for field in ("vpc", "cluster_security_group"):
        if getattr(aws, field) is None:
            yield Refusal(
                f"aws.{field}",
                f"is required with aws.cluster: aws eks describe-cluster --name {aws.cluster} "
                f"--region {aws.region} --query cluster.resourcesVpcConfig says it",
            )
    if aws.api_access:
        theirs = "its owner says who reaches its API"
        yield Refusal("aws.api_access", f"must be absent with aws.cluster: {theirs}")


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {_zone: (), _network: (), _cluster: ()}
