from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import distributions
from typing import Any

from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION
from tests.matrix import WHOLE_NODES
from tests.synthesis import Synthesised


def test_api_is_reachable_from_the_vpc_only_by_default(synthesised: Synthesised) -> None:
    access = _cluster(synthesised)["ResourcesVpcConfig"]
    assert access["EndpointPrivateAccess"] is True
    assert access["EndpointPublicAccess"] is False


def test_addresses_of_the_vpc_reach_the_api(each: Synthesised) -> None:
    """EKS's own security group admits only itself."""
    template = each.template("cluster")["Resources"]
    groups = [i for i, r in template.items() if r["Type"] == "AWS::EC2::SecurityGroup"]
    ((_, vpc),) = each.resources("AWS::EC2::VPC")
    (group,) = _cluster(each)["ResourcesVpcConfig"]["SecurityGroupIds"]
    assert group["Fn::GetAtt"][0] in groups
    (rule,) = template[group["Fn::GetAtt"][0]]["Properties"]["SecurityGroupIngress"]
    assert rule["CidrIp"] == vpc["Properties"]["CidrBlock"]
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 443, 443)


def test_a_laptop_can_reach_the_api_through_a_system_node(synthesised: Synthesised) -> None:
    """By Session Manager, and with no more rights than that takes."""
    statements = [
        statement
        for _, policy in synthesised.resources("AWS::IAM::Policy")
        if "SystemNodeRole" in json.dumps(policy["Properties"]["Roles"])
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]
    register, sessions = statements
    assert register["Action"] == "ssm:UpdateInstanceInformation"
    assert json.dumps(register["Resource"]).endswith(':instance/*"]]}')
    assert {a.partition(":")[0] for a in sessions["Action"]} == {"ssmmessages"}


def test_api_opens_to_the_named_addresses_only(of_matrix: Callable[[str], Synthesised]) -> None:
    access = _cluster(of_matrix(WHOLE_NODES))["ResourcesVpcConfig"]
    assert access["EndpointPublicAccess"] is True
    assert access["PublicAccessCidrs"] == ["203.0.113.0/24", "198.51.100.7/32"]
    assert access["EndpointPrivateAccess"] is True


def test_authenticates_by_access_entries_for_cdk_and_one_role(synthesised: Synthesised) -> None:
    config = _cluster(synthesised)["AccessConfig"]
    assert config == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    synthesised.assertions("cluster").resource_count_is("AWS::EKS::AccessEntry", 2)


def test_add_ons_are_pinned(synthesised: Synthesised) -> None:
    pinned = {name: a["Properties"]["AddonVersion"] for name, a in _addons(synthesised).items()}
    assert pinned == VERSIONS
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", v) for v in pinned.values())
    # kube-proxy follows the cluster's own version.
    assert pinned["kube-proxy"].startswith(f"v{KUBERNETES_VERSION}.")


def test_libraries_follow_the_cluster_version(synthesised: Synthesised) -> None:
    assert _cluster(synthesised)["Version"] == KUBERNETES_VERSION
    minor = KUBERNETES_VERSION.rpartition(".")[2]
    installed = {distribution.name for distribution in distributions()}
    assert f"aws-cdk.lambda-layer-kubectl-v{minor}" in installed
    assert f"cdk8s-plus-{minor}" in installed


def _cluster(synthesised: Synthesised) -> dict[str, Any]:
    ((_, cluster),) = synthesised.resources("AWS::EKS::Cluster")
    properties: dict[str, Any] = cluster["Properties"]
    return properties


def _addons(synthesised: Synthesised) -> dict[str, dict[str, Any]]:
    addons = synthesised.resources("AWS::EKS::Addon")
    return {addon["Properties"]["AddonName"]: addon for _, addon in addons}
