"""Asks about what the file takes as it is: an existing VPC, and an existing cluster."""

import re
from collections.abc import Iterator
from typing import Any, Final, Literal

from kubernetes.client import AppsV1Api, CoreV1Api

from operations.account import Deployment, DeploymentError, ask
from operations.cluster import connected
from operations.preflight.check import Finding, ok, refused, warning
from stacks.cluster import CLUSTER_OUTPUT, KUBERNETES_VERSION

_S3_DRIVER: Final = "aws-mountpoint-s3-csi-driver"
NEEDED: Final = ("eks-pod-identity-agent", _S3_DRIVER)
"""Without these add-ons no pod gets credentials, or checkpoints."""
WANTED: Final = ("amazon-cloudwatch-observability", "eks-node-monitoring-agent")
"""Without them nodes have no metrics, and nobody repairs them."""
NETWORKING: Final = {
    "vpc-cni": "DaemonSet aws-node",
    "kube-proxy": "DaemonSet kube-proxy",
    "coredns": "Deployment coredns",
}
"""Without these add-ons no node is ready, or no pod finds a name; and what of kube-system each is,
which a cluster may have without the add-on."""
CONFIGURATIONS: Final = {
    # The EKS add-on's own opt-out: else it puts an agent into each Deployment behind a Service.
    "amazon-cloudwatch-observability": " --configuration-values "
    """'{"manager":{"applicationSignals":{"autoMonitor":{"monitorAllServices":false}}}}'"""
}
"""How ``aws eks create-addon`` goes on, where the add-on's default is wrong."""
_POLICIES: Final = re.compile(r"enable-?network-?policy\W+true", re.IGNORECASE)
_TIMEOUT: Final = {"_request_timeout": 5}


def _found(sound: str, *findings: Finding | Literal[False], subject: str = "") -> list[Finding]:
    """The findings that apply, or else that all is ``sound``."""
    problems = [finding for finding in findings if finding]
    return [each._replace(subject=subject) for each in problems or [ok(sound)]]


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
        # A node has no public address, so an internet gateway is not a way out.
        outwards = any(
            route.get("DestinationCidrBlock") == "0.0.0.0/0"
            and route["State"] == "active"
            and not route.get("GatewayId", "").startswith("igw-")
            for route in routes
        )
        free = "add a gateway endpoint, which is free"
        yield from _found(
            f"in {zone}, with a way out",
            place != zone and refused(f"is in {place}, not in {zone}", look),
            not outwards and refused("has no private way out", "route 0.0.0.0/0 to a NAT gateway"),
            not to_s3 and warning("pays for S3 by the GiB", free),
            subject=f"subnet {name}",
        )


def _routes(tables: list[dict[str, Any]], subnet: str) -> list[dict[str, Any]]:
    """Routes of the subnet's own table, or else of the VPC's main one."""
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
    is_auto = described.get("computeConfig", {}).get("enabled", False)
    auto = "is in Auto Mode, whose nodes have another network, and no Neuron DRA driver"
    is_ipv6 = described["kubernetesNetworkConfig"]["ipFamily"] == "ipv6"
    ipv6 = "gives pods IPv6 addresses, and charts and node groups are for IPv4"
    yield from _found(
        f"{name}, Kubernetes {version}",
        version != KUBERNETES_VERSION and refused(old, new),
        elsewhere and refused("is not where the file says", f"set under aws: {place}"),
        is_old and refused("takes no access entries, by which a deploy gets in", update),
        is_auto and refused(auto, "name a cluster without it, or leave aws.cluster out"),
        is_ipv6 and refused(ipv6, "name a cluster of ipFamily ipv4, or leave aws.cluster out"),
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
    return vpc is None or (
        answer is not None and answer["cluster"]["resourcesVpcConfig"]["vpcId"] != vpc
    )


def network(deployment: Deployment) -> Iterator[Finding]:
    """Whether nodes in an existing cluster become ready, and whether policies hold there."""
    if deployment.experiment.aws.cluster is None:
        return
    eks, of_cluster = deployment.client("eks"), {"clusterName": deployment.cluster_name}
    installed = _installed(deployment)
    lacking = NETWORKING.keys() - installed
    objects = _kube_system(deployment) if lacking else {}
    unseen = (
        "" if objects is not None else "; if it is there, set aws.administrator_role, which sees it"
    )
    objects = objects or {}
    create = f"aws eks create-addon --cluster-name {deployment.cluster_name} --addon-name"
    of_no_use = "seen in kube-system: no node would be of use"
    missing = (
        refused(f"no add-on {addon}, and no {manifest} {of_no_use}", f"{create} {addon}{unseen}")
        for addon, manifest in NETWORKING.items()
        if addon in lacking and manifest not in objects
    )
    addon: dict[str, Any] = {}
    if "vpc-cni" in installed:
        addon = eks.describe_addon(**of_cluster, addonName="vpc-cni")["addon"]
    daemon, account = objects.get("DaemonSet aws-node"), objects.get("ServiceAccount aws-node")
    settings = addon.get("configurationValues", "")
    if daemon:
        settings = str([each.args for each in daemon.spec.template.spec.containers])
    # Nodes of ours have no AmazonEKS_CNI_Policy (EKS User Guide, "Amazon EKS node IAM role").
    pods = {"namespace": "kube-system", "serviceAccount": "aws-node"}
    has_role = (
        addon.get("serviceAccountRoleArn")
        or (account and "eks.amazonaws.com/role-arn" in (account.metadata.annotations or {}))
        or eks.list_pod_identity_associations(**of_cluster, **pods)["associations"]
    )
    bare = "vpc-cni has the rights of its nodes, and ours have none: they would never be ready"
    give = "update-addon --addon-name vpc-cni --pod-identity-associations ..."
    if daemon:
        give = "create-pod-identity-association --namespace kube-system --service-account aws-node"
        give += " --role-arn ..."
    identity = f"aws eks {give} --cluster-name {deployment.cluster_name}"
    text = "network policies do not hold: who reaches the services is not limited"
    remedy = "set enableNetworkPolicy in the configuration of vpc-cni"
    has_cni = bool(addon or daemon)
    yield from _found(
        "nodes would be ready, and network policies hold",
        *missing,
        has_cni and not has_role and refused(bare, identity),
        has_cni and not _POLICIES.search(settings) and warning(text, remedy),
    )


def _installed(deployment: Deployment) -> set[str]:
    listed = deployment.client("eks").listed
    return {*listed("list_addons", "addons", clusterName=deployment.cluster_name)}


def _kube_system(deployment: Deployment) -> dict[str, Any] | None:
    """Its objects by kind and name; None if the API does not answer, or not yet."""
    try:
        with connected(deployment) as api:
            apps, core = AppsV1Api(api), CoreV1Api(api)
            lists = {
                "DaemonSet": apps.list_namespaced_daemon_set,
                "Deployment": apps.list_namespaced_deployment,
                "ServiceAccount": core.list_namespaced_service_account,
            }
            return {
                f"{kind} {each.metadata.name}": each
                for kind, list_all in lists.items()
                for each in list_all("kube-system", **_TIMEOUT).items
            }
    except DeploymentError:
        return None


def addons(deployment: Deployment) -> Iterator[Finding]:
    """Whether an existing cluster has what a new one would get. A chart may bring the same."""
    if deployment.experiment.aws.cluster is None:
        return
    name, installed = deployment.cluster_name, _installed(deployment)
    driver: dict[str, Any] = {}
    if _S3_DRIVER in installed:
        describe = deployment.client("eks").describe_addon
        driver = describe(clusterName=name, addonName=_S3_DRIVER)["addon"]
    create = f"aws eks create-addon --cluster-name {name} --addon-name"
    missing = (
        judge(f"no add-on {addon}", f"{create} {addon}{CONFIGURATIONS.get(addon, '')}")
        for addons, judge in ((NEEDED, refused), (WANTED, warning))
        for addon in addons
        if addon not in installed
    )
    # Pod identity came with version 2 (mountpoint-s3-csi-driver, README).
    is_old = driver.get("addonVersion", "").startswith("v1.")
    old = f"version 1 of {_S3_DRIVER} does not mount by a pod's identity"
    update = f"aws eks update-addon --cluster-name {name} --addon-name {_S3_DRIVER}"
    yield from _found(
        "all are there", *missing, is_old and refused(old, f"{update} --addon-version v2...")
    )
