"""Asks about what the file takes as it is: an existing VPC, and an existing cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubernetes.client import AdmissionregistrationV1Api, AppsV1Api

from charts.names import NAMESPACE
from deployment.account import Deployment, ask
from deployment.cluster import NoCluster, connected, kubernetes_errors
from deployment.lifecycle import TAG
from deployment.preflight.check import Finding, ok, refused, warning
from stacks.addons import VERSIONS
from stacks.cluster import CLUSTER_OUTPUT, KUBERNETES_VERSION

_ADDRESSES: Final = 128
"""Of a Trainium node: an EFA interface a network card, and the CNI takes those of pods by whole
interfaces of 50 (amazon-vpc-cni-k8s, ``WARM_ENI_TARGET``)."""
_ANYWHERE: Final = "0.0.0.0/0"
_WITHOUT: Final = {
    "eks-pod-identity-agent": (refused, "no pod gets credentials"),
    "aws-mountpoint-s3-csi-driver": (refused, "no pod gets checkpoints"),
    "vpc-cni": (warning, "nobody says whether network policies hold"),
    "amazon-cloudwatch-observability": (warning, "no metric of nodes, and no alarm when they idle"),
    "eks-node-monitoring-agent": (warning, "broken nodes are not repaired"),
}
"""What is so without an add-on. Another program than the add-on may do the same."""
_POLICIES: Final = re.compile(r"enableNetworkPolicy\W+true")
_OF_AWS: Final = ("amazon-", "aws-", "eks-", "pod-identity-", "vpc-resource-")
_SECONDS: Final = 5


def vpc(deployment: Deployment) -> Iterator[Finding]:
    """Whether the subnets are where the file says, with a way out and room for a node."""
    aws, ec2 = deployment.experiment.aws, deployment.client("ec2")
    if aws.vpc is None:
        return
    answer = ask(ec2.describe_subnets, SubnetIds=[*aws.subnets])
    if answer is None:
        look = f"aws ec2 describe-subnets --filters Name=vpc-id,Values={aws.vpc}"
        yield refused(f"{aws.vpc} does not have all of aws.subnets", f"set them: {look}")
        return
    of_vpc = [{"Name": "vpc-id", "Values": [aws.vpc]}]
    tables = ec2.describe_route_tables(Filters=of_vpc)["RouteTables"]
    subnets = {subnet["SubnetId"]: subnet for subnet in answer["Subnets"]}
    for name, zone in zip(aws.subnets, aws.availability_zones, strict=True):
        subnet, subject = subnets[name], f"subnet {name}"
        if (subnet["VpcId"], subnet["AvailabilityZone"]) != (aws.vpc, zone):
            text = (
                f"is in {subnet['AvailabilityZone']} of {subnet['VpcId']}, not {zone} of {aws.vpc}"
            )
            yield refused(text, "set aws.subnets in the order of aws.availability_zones", subject)
            continue
        findings = [*_routed(_routes(tables, name))]
        free, capacity = subnet["AvailableIpAddressCount"], deployment.experiment.capacity
        if zone == capacity.availability_zone and free < capacity.nodes * _ADDRESSES:
            text = f"{free} addresses are free; {capacity.nodes * _ADDRESSES} may be taken"
            findings.append(warning(text, "name a larger subnet of the zone"))
        findings = findings or [ok(f"in {zone}, with a way out; {free} addresses are free")]
        yield from (finding._replace(subject=subject) for finding in findings)


def _routes(tables: list[dict[str, Any]], subnet: str) -> list[dict[str, Any]]:
    """Of the subnet's own route table, or else of the VPC's main one."""
    main: list[dict[str, Any]] = []
    for table in tables:
        for association in table["Associations"]:
            if association.get("SubnetId") == subnet:
                return list(table["Routes"])
            main = table["Routes"] if association.get("Main") else main
    return main


def _routed(routes: list[dict[str, Any]]) -> Iterator[Finding]:
    out = [route for route in routes if route.get("DestinationCidrBlock") == _ANYWHERE]
    if not any(route["State"] == "active" for route in out):
        text = "has no way out: nodes reach neither EKS nor a registry"
        yield refused(text, f"route {_ANYWHERE} to a NAT gateway, or name another")
    elif out[0].get("GatewayId", "").startswith("igw-"):
        text = "is public: its nodes get no public address, so nothing answers them"
        yield refused(text, "name a private subnet")
    if not any("DestinationPrefixListId" in route for route in routes):
        text = "reaches S3 by the way out, which is paid for by the GiB"
        yield warning(text, "add a gateway endpoint of S3, which is free")


def cluster(deployment: Deployment) -> Iterator[Finding]:
    """Whether the cluster is the one that the file describes, and takes nodes and pods of ours."""
    aws, eks, name = deployment.experiment.aws, deployment.client("eks"), deployment.cluster_name
    standing = deployment.outputs("cluster").get(CLUSTER_OUTPUT, name)
    if standing != name or (aws.vpc and deployment.stack(f"{deployment.name}-network")):
        text = "the stacks stand in another cluster or VPC than the file names"
        yield refused(text, "make destroy with the file that they were deployed by")
    if aws.cluster is None:
        return
    answer = ask(eks.describe_cluster, name=name)
    if answer is None:
        look = f"aws eks list-clusters --region {deployment.region}"
        yield refused(f"there is no {name} in {deployment.region}", f"set aws.cluster: {look}")
        return
    described = answer["cluster"]
    findings = [*_described(deployment, described), *_shared(deployment)]
    yield from findings or [ok(f"{name}: Kubernetes {described['version']}, {described['status']}")]


def _described(deployment: Deployment, described: Mapping[str, Any]) -> Iterator[Finding]:
    aws, name, network = (
        deployment.experiment.aws,
        described["name"],
        described["resourcesVpcConfig"],
    )
    for field, actual in (
        ("vpc", network["vpcId"]),
        ("cluster_security_group", network["clusterSecurityGroupId"]),
    ):
        if getattr(aws, field) != actual:
            text = f"aws.{field} is {getattr(aws, field)}; the cluster's is {actual}"
            yield refused(text, f"set aws.{field}: {actual}")
    if described["version"] != KUBERNETES_VERSION:
        text = f"has Kubernetes {described['version']}, and the manifests, kubectl and the AMI of "
        yield refused(f"{text}Neuron are for {KUBERNETES_VERSION}", "name a cluster that has it")
    if described["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        update = f"aws eks update-cluster-config --region {deployment.region} --name {name}"
        mode = "--access-config authenticationMode=API_AND_CONFIG_MAP"
        yield refused("takes no access entries, by which a deploy gets in", f"{update} {mode}")


def _shared(deployment: Deployment) -> Iterator[Finding]:
    """The namespace and the driver's release have fixed names, so a cluster has one experiment."""
    eks, of_cluster = deployment.client("eks"), {"clusterName": deployment.cluster_name}
    listed = eks.list_pod_identity_associations(**of_cluster, namespace=NAMESPACE)["associations"]
    owners = set()
    for each in listed:
        about = {**of_cluster, "associationId": each["associationId"]}
        association = eks.describe_pod_identity_association(**about)["association"]
        owners.add(association.get("tags", {}).get(TAG, "somebody else"))
    for owner in sorted(owners - {deployment.name}):
        text = f"namespace {NAMESPACE} is that of {owner}: a cluster takes one experiment at a time"
        yield refused(text, "destroy that one first, or name another cluster")


def addons(deployment: Deployment) -> Iterator[Finding]:
    """Whether an existing cluster has what a new one would get."""
    if deployment.experiment.aws.cluster is None:
        return
    eks, of_cluster = deployment.client("eks"), {"clusterName": deployment.cluster_name}
    pages = eks.get_paginator("list_addons").paginate(**of_cluster)
    installed = {name for page in pages for name in page["addons"]}
    versions = {}
    for name, (judge, lack) in _WITHOUT.items():
        subject = f"add-on {name}"
        if name not in installed:
            create = f"aws eks create-addon --region {deployment.region} --addon-name {name} "
            remedy = f"{create}--cluster-name {deployment.cluster_name}"
            yield judge(f"is not installed: {lack}", remedy, subject)
            continue
        addon = eks.describe_addon(**of_cluster, addonName=name)["addon"]
        versions[name] = addon["addonVersion"]
        if _numbers(versions[name]) < _numbers(VERSIONS[name]):
            text = f"{versions[name]} is older than {VERSIONS[name]}, which a new cluster gets"
            yield warning(text, "update it", subject)
        if name == "vpc-cni" and not _POLICIES.search(addon.get("configurationValues", "")):
            text = "does not enforce network policies: who reaches the services is not limited"
            yield warning(text, "set enableNetworkPolicy in its configuration", subject)
    if _WITHOUT.keys() <= versions.keys():
        yield ok(", ".join(f"{name} {version}" for name, version in versions.items()))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def inside(deployment: Deployment) -> Iterator[Finding]:
    """Whether others in an existing cluster change or refuse pods, or hand out Neuron devices."""
    if deployment.experiment.aws.cluster is None:
        return
    try:
        with connected(deployment) as api, kubernetes_errors():
            hooks, timeout = AdmissionregistrationV1Api(api), {"_request_timeout": _SECONDS}
            changing = hooks.list_mutating_webhook_configuration(**timeout).items
            refusing = hooks.list_validating_webhook_configuration(**timeout).items
            daemons = AppsV1Api(api).list_daemon_set_for_all_namespaces(**timeout).items
    except NoCluster:
        look = "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations"
        text = (
            "not known whether a policy engine changes or refuses pods: access comes with a deploy"
        )
        yield warning(text, f"look: {look}; or name aws.administrator_role")
        return
    engines = sorted({each.metadata.name for each in (*changing, *refusing) if _meets_pods(each)})
    plugins = [d.metadata.name for d in daemons if "neuron-device-plugin" in d.metadata.name]
    if plugins:
        text = f"{', '.join(plugins)} hands out the devices that the DRA driver hands out, too"
        yield refused(text, "keep it off nodes with the taint aws.amazon.com/neuron, or remove it")
    if engines:
        yield warning(
            f"{', '.join(engines)} may change or refuse pods", f"exempt the namespace {NAMESPACE}"
        )
    if not plugins and not engines:
        yield ok("nothing changes or refuses pods, and no device plugin of Neuron is there")


def _meets_pods(configuration: Any) -> bool:
    """Whether a webhook that is not of AWS is called for pods."""
    resources = {
        resource
        for webhook in configuration.webhooks or []
        for rule in webhook.rules or []
        for resource in rule.resources
    }
    return bool(resources & {"*", "*/*", "pods"}) and not configuration.metadata.name.startswith(
        _OF_AWS
    )
