from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import distributions
from typing import Any

import pytest
from aws_cdk.assertions import Match

from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION
from tests.matrix import WHOLE_NODES
from tests.synthesis import Synthesised

ADDONS = {
    "vpc-cni",
    "coredns",
    "kube-proxy",
    "eks-pod-identity-agent",
    "aws-mountpoint-s3-csi-driver",
    "amazon-cloudwatch-observability",
    "eks-node-monitoring-agent",
}


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


def test_is_not_in_auto_mode(synthesised: Synthesised) -> None:
    cluster = _cluster(synthesised)
    assert cluster["ComputeConfig"]["Enabled"] is False
    assert cluster["BootstrapSelfManagedAddons"] is False


def test_secrets_are_encrypted_with_a_rotating_key(synthesised: Synthesised) -> None:
    (encryption,) = _cluster(synthesised)["EncryptionConfig"]
    assert encryption["Resources"] == ["secrets"]
    synthesised.assertions("cluster").has_resource_properties(
        "AWS::KMS::Key", {"EnableKeyRotation": True}
    )


def test_logs_all_of_the_control_plane(synthesised: Synthesised) -> None:
    types = _cluster(synthesised)["Logging"]["ClusterLogging"]["EnabledTypes"]
    assert {entry["Type"] for entry in types} == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }


def test_log_groups_are_there_before_aws_would_make_them(synthesised: Synthesised) -> None:
    template = synthesised.template("cluster")["Resources"]
    groups = {
        str(resource["Properties"].get("LogGroupName")): logical_id
        for logical_id, resource in template.items()
        if resource["Type"] == "AWS::Logs::LogGroup"
    }
    (cluster,) = (r for r in template.values() if r["Type"] == "AWS::EKS::Cluster")
    assert groups["/aws/eks/article/cluster"] in cluster["DependsOn"]
    agent = _addons(synthesised)["amazon-cloudwatch-observability"]
    for kind in ("application", "dataplane", "host", "performance"):
        assert groups[f"/aws/containerinsights/article/{kind}"] in agent["DependsOn"]


def test_authenticates_by_access_entries_for_cdk_and_one_role(synthesised: Synthesised) -> None:
    config = _cluster(synthesised)["AccessConfig"]
    assert config == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    synthesised.assertions("cluster").resource_count_is("AWS::EKS::AccessEntry", 2)


def test_has_the_add_ons_and_each_once(synthesised: Synthesised) -> None:
    names = [a["Properties"]["AddonName"] for _, a in synthesised.resources("AWS::EKS::Addon")]
    assert sorted(names) == sorted(ADDONS)


def test_add_ons_are_pinned(synthesised: Synthesised) -> None:
    pinned = {name: a["Properties"]["AddonVersion"] for name, a in _addons(synthesised).items()}
    assert pinned == VERSIONS
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", v) for v in pinned.values())
    # kube-proxy follows the cluster's own version.
    assert pinned["kube-proxy"].startswith(f"v{KUBERNETES_VERSION}.")


def test_network_policies_are_enforced(synthesised: Synthesised) -> None:
    assert _configuration(synthesised, "vpc-cni") == {"enableNetworkPolicy": "true"}


def test_container_insights_sees_the_neuron_devices(synthesised: Synthesised) -> None:
    configuration = _configuration(synthesised, "amazon-cloudwatch-observability")
    collected = configuration["agent"]["config"]["logs"]["metrics_collected"]
    assert collected["kubernetes"]["accelerated_compute_metrics"] is True
    assert "application_signals" not in collected
    # The agents must run on the tainted nodes above all.
    assert configuration["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize("addon", ["vpc-cni", "amazon-cloudwatch-observability"])
def test_add_ons_that_call_aws_have_an_identity(addon: str, synthesised: Synthesised) -> None:
    (association,) = _addons(synthesised)[addon]["Properties"]["PodIdentityAssociations"]
    assert association["ServiceAccount"] in {"aws-node", "cloudwatch-agent"}


def test_nodes_wait_for_networking_and_the_other_add_ons_for_nodes(
    synthesised: Synthesised,
) -> None:
    resources = synthesised.template("cluster")["Resources"]
    (group_id, group), *_ = (
        (i, r) for i, r in resources.items() if r["Type"] == "AWS::EKS::Nodegroup"
    )
    needed = {resources[i]["Properties"].get("AddonName") for i in group["DependsOn"]}
    assert needed == {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}
    for name in ADDONS - needed:
        assert group_id in _addons(synthesised)[name]["DependsOn"]


def test_system_nodes_require_imdsv2_within_one_hop(synthesised: Synthesised) -> None:
    synthesised.assertions("cluster").has_resource_properties(
        "AWS::EC2::LaunchTemplate",
        {
            "LaunchTemplateData": Match.object_like(
                {"MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}}
            )
        },
    )


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


def _configuration(synthesised: Synthesised, addon: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(
        _addons(synthesised)[addon]["Properties"]["ConfigurationValues"]
    )
    return values
