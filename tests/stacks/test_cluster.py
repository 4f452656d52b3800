from __future__ import annotations

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
    # EKS's own security group admits only itself.
    template = synthesised.template("cluster")["Resources"]
    (group,) = access["SecurityGroupIds"]
    (rule,) = template[group["Fn::GetAtt"][0]]["Properties"]["SecurityGroupIngress"]
    ((_, vpc),) = synthesised.resources("AWS::EC2::VPC")
    assert rule["CidrIp"] == vpc["Properties"]["CidrBlock"]


def test_api_opens_to_the_named_addresses_only(of_matrix: Callable[[str], Synthesised]) -> None:
    access = _cluster(of_matrix(WHOLE_NODES))["ResourcesVpcConfig"]
    assert access["EndpointPublicAccess"] is True
    assert access["PublicAccessCidrs"] == ["203.0.113.0/24", "198.51.100.7/32"]
    assert access["EndpointPrivateAccess"] is True


def test_authenticates_by_access_entries_for_cdk_and_one_role(synthesised: Synthesised) -> None:
    bootstrap = {"BootstrapClusterCreatorAdminPermissions": False}
    assert _cluster(synthesised)["AccessConfig"] == {"AuthenticationMode": "API"} | bootstrap
    assert len([*synthesised.resources("AWS::EKS::AccessEntry")]) == 2


def test_add_ons_and_libraries_follow_the_cluster_s_version(synthesised: Synthesised) -> None:
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", v) for v in VERSIONS.values())
    assert VERSIONS["kube-proxy"].startswith(f"v{KUBERNETES_VERSION}.")
    assert _cluster(synthesised)["Version"] == KUBERNETES_VERSION
    minor = KUBERNETES_VERSION.rpartition(".")[2]
    installed = {distribution.name for distribution in distributions()}
    assert {f"aws-cdk.lambda-layer-kubectl-v{minor}", f"cdk8s-plus-{minor}"} <= installed


def _cluster(synthesised: Synthesised) -> dict[str, Any]:
    ((_, cluster),) = synthesised.resources("AWS::EKS::Cluster")
    return dict(cluster["Properties"])
