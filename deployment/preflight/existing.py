"""Asks about what the file takes as it is: an existing VPC, and an existing cluster."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from kubernetes.client import AdmissionregistrationV1Api, AppsV1Api

from charts.names import NEURON_TAINT, namespace
from deployment.account import Deployment, ask
from deployment.cluster import NoCluster, connected, kubernetes_errors
from deployment.preflight.check import Finding, ok, refused, warning
from stacks.cluster import CLUSTER_OUTPUT, KUBERNETES_VERSION

NEEDED: Final = ("eks-pod-identity-agent", "aws-mountpoint-s3-csi-driver")
"""Without these add-ons no pod gets credentials, or checkpoints."""
WANTED: Final = ("vpc-cni", "amazon-cloudwatch-observability", "eks-node-monitoring-agent")
"""Without them policies do not hold, nodes have no metrics, and nobody repairs them."""
_POLICIES: Final = re.compile(r"enableNetworkPolicy\W+true")
_OF_AWS: Final = ("amazon-", "aws-", "eks-", "pod-identity-", "vpc-resource-")
"""How the webhooks of AWS's own controllers begin."""

Row = tuple[bool, Callable[..., Finding], str, str]
"""Whether it applies, then a finding with its text and remedy."""


def _applying(subject: str, sound: str, *rows: Row) -> list[Finding]:
    findings = [judge(text, remedy) for applies, judge, text, remedy in rows if applies]
    return [finding._replace(subject=subject) for finding in findings or [ok(sound)]]


def vpc(deployment: Deployment) -> Iterator[Finding]:
    """Whether the subnets are in their zones, private, with a way out and with names."""
    aws, ec2 = deployment.experiment.aws, deployment.client("ec2")
    if aws.vpc is None:
        return
    filters = [{"Name": "vpc-id", "Values": [aws.vpc]}]
    look = f"set aws.subnets: aws ec2 describe-subnets --filters Name=vpc-id,Values={aws.vpc}"
    listed = ec2.describe_subnets(Filters=filters)["Subnets"]
    tables = ec2.describe_route_tables(Filters=filters)["RouteTables"]
    zones = {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in listed}
    for attribute in ("enableDnsSupport", "enableDnsHostnames") if listed else ():
        answer = ec2.describe_vpc_attribute(VpcId=aws.vpc, Attribute=attribute)
        if not answer[attribute[0].upper() + attribute[1:]]["Value"]:
            option = re.sub("([A-Z])", r"-\1", attribute).lower()
            text = f"{attribute} is off, so no node finds a private API"
            yield refused(text, f"aws ec2 modify-vpc-attribute --vpc-id {aws.vpc} --{option}")
    for name, zone in zip(aws.subnets, aws.availability_zones, strict=True):
        place, routes = zones.get(name, f"no zone of {aws.vpc}"), _routes(tables, name)
        to_s3 = any("DestinationPrefixListId" in route for route in routes)
        # A node has no public address, so an internet gateway is no way out.
        outwards = any(
            route.get("DestinationCidrBlock") == "0.0.0.0/0"
            and route["State"] == "active"
            and not route.get("GatewayId", "").startswith("igw-")
            for route in routes
        )
        yield from _applying(
            f"subnet {name}",
            f"in {zone}, with a way out",
            (place != zone, refused, f"is in {place}, not in {zone}", look),
            (not outwards, refused, "has no private way out", "route 0.0.0.0/0 to a NAT gateway"),
            (not to_s3, warning, "pays for S3 by the GiB", "add a gateway endpoint, which is free"),
        )


def _routes(tables: list[dict[str, Any]], subnet: str) -> list[dict[str, Any]]:
    """Of the subnet's own route table, or else of the VPC's main one."""
    associations = [(each, table) for table in tables for each in table["Associations"]]
    explicit = [table for each, table in associations if each.get("SubnetId") == subnet]
    main = [table for each, table in associations if each.get("Main")]
    return [route for table in (explicit or main)[:1] for route in table["Routes"]]


def cluster(deployment: Deployment) -> Iterator[Finding]:
    """Whether the cluster is as the file says, and has room for an experiment."""
    aws, eks, name = deployment.experiment.aws, deployment.client("eks"), deployment.cluster_name
    if _is_moved(deployment):
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
    version, network = described["version"], described["resourcesVpcConfig"]
    place = f"vpc: {network['vpcId']}, cluster_security_group: {network['clusterSecurityGroupId']}"
    elsewhere = place != f"vpc: {aws.vpc}, cluster_security_group: {aws.cluster_security_group}"
    is_old = described["accessConfig"]["authenticationMode"] == "CONFIG_MAP"
    old, new = f"has Kubernetes {version}", f"charts and images are for {KUBERNETES_VERSION}"
    update = f"aws eks update-cluster-config --region {deployment.region} --name {name}"
    update += " --access-config authenticationMode=API_AND_CONFIG_MAP"
    yield from _applying(
        "",
        f"{name}, Kubernetes {version}",
        (version != KUBERNETES_VERSION, refused, old, new),
        (elsewhere, refused, "is not where the file says", f"set under aws: {place}"),
        (is_old, refused, "takes no access entries, by which a deploy gets in", update),
    )


def _is_moved(deployment: Deployment) -> bool:
    vpc, name = deployment.experiment.aws.vpc, deployment.cluster_name
    standing = deployment.outputs("cluster").get(CLUSTER_OUTPUT)
    has_network = deployment.stack(f"{deployment.name}-network") is not None
    if standing not in (None, name) or (has_network and vpc):
        return True
    if standing is None or has_network:
        return False
    answer = ask(deployment.client("eks").describe_cluster, name=name)
    return vpc is None or (answer is not None and _vpc_id(answer) != vpc)


def _vpc_id(answer: dict[str, Any]) -> str:
    return str(answer["cluster"]["resourcesVpcConfig"]["vpcId"])


def addons(deployment: Deployment) -> Iterator[Finding]:
    """Whether an existing cluster has what a new one would get. A chart may bring the same."""
    if deployment.experiment.aws.cluster is None:
        return
    eks, of_cluster = deployment.client("eks"), {"clusterName": deployment.cluster_name}
    pages = eks.get_paginator("list_addons").paginate(**of_cluster)
    installed = {name for page in pages for name in page["addons"]}
    cni, driver = (
        eks.describe_addon(**of_cluster, addonName=name)["addon"] if name in installed else {}
        for name in ("vpc-cni", "aws-mountpoint-s3-csi-driver")
    )
    create = f"aws eks create-addon --cluster-name {deployment.cluster_name} --addon-name"
    missing = [
        (name not in installed, judge, f"no add-on {name}", f"{create} {name}")
        for names, judge in ((NEEDED, refused), (WANTED, warning))
        for name in names
    ]
    is_open = not _POLICIES.search(cni.get("configurationValues", ""))
    update = f"aws eks update-addon --cluster-name {deployment.cluster_name} --addon-name"
    # Nodes of ours have no AmazonEKS_CNI_Policy (EKS User Guide, "Amazon EKS node IAM role").
    has_role = cni.get("serviceAccountRoleArn") or cni.get("podIdentityAssociations")
    is_bare = "vpc-cni" in installed and not has_role
    bare = "vpc-cni has the rights of its nodes, and ours have none: they would never be ready"
    # Pod identity came with version 2 (mountpoint-s3-csi-driver, README).
    is_old = driver.get("addonVersion", "").startswith("v1.")
    old = "version 1 of aws-mountpoint-s3-csi-driver does not mount by a pod's identity"
    text = "network policies do not hold: who reaches the services is not limited"
    remedy = "set enableNetworkPolicy in the configuration of vpc-cni"
    yield from _applying(
        "",
        "all are there",
        *missing,
        (is_bare, refused, bare, f"{update} vpc-cni --pod-identity-associations ..."),
        (is_old, refused, old, f"{update} aws-mountpoint-s3-csi-driver --addon-version v2..."),
        (is_open, warning, text, remedy),
    )


def inside(deployment: Deployment) -> Iterator[Finding]:
    """Whether others in an existing cluster change or refuse pods, or hand out Neuron devices."""
    if deployment.experiment.aws.cluster is None:
        return
    try:
        with connected(deployment) as api, kubernetes_errors():
            hooks, timeout = AdmissionregistrationV1Api(api), {"_request_timeout": 5}
            changing = hooks.list_mutating_webhook_configuration(**timeout).items
            refusing = hooks.list_validating_webhook_configuration(**timeout).items
            daemons = AppsV1Api(api).list_daemon_set_for_all_namespaces(**timeout).items
    except NoCluster:
        text = "not known whether a policy engine refuses pods, before a deploy gives access"
        yield warning(text, "kubectl get validatingwebhookconfigurations says")
        return
    engines = ", ".join(
        each.metadata.name
        for each in (*changing, *refusing)
        if _meets_pods(each) and not each.metadata.name.startswith(_OF_AWS)
    )
    on_ours = [daemon.metadata.name for daemon in daemons if _reaches_our_nodes(daemon)]
    is_plugged = any("neuron-device-plugin" in name for name in on_ours)
    twice = "neuron-device-plugin hands out the devices that the DRA driver hands out, too"
    plugged = f"take its toleration of {NEURON_TAINT} away"
    is_driven = any("neuron-dra-driver" in name for name in on_ours)
    is_driven = is_driven and deployment.stack(f"{deployment.name}-trainium") is None
    driven = "a Neuron DRA driver is there, which a deploy would take over and a destroy remove"
    exempt = f"exempt namespace {namespace(deployment.experiment)}"
    yield from _applying(
        "",
        "nobody changes or refuses pods, or hands out Neuron devices",
        (is_plugged, refused, twice, plugged),
        (is_driven, refused, driven, "name another cluster"),
        (bool(engines), warning, f"{engines} may change or refuse pods", exempt),
    )


def _reaches_our_nodes(daemon: Any) -> bool:
    tolerations = daemon.spec.template.spec.tolerations or []
    return any(each.key in (None, NEURON_TAINT) for each in tolerations)


def _meets_pods(configuration: Any) -> bool:
    rules = [rule for hook in configuration.webhooks or [] for rule in hook.rules or []]
    return any({"*", "*/*", "pods"}.intersection(rule.resources) for rule in rules)
