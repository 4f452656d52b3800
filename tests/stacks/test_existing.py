"""What the stacks make in a cluster or a VPC that exists, and that they make neither."""

import json
from typing import Any, Final

import pytest

from experiment.cost.prices import parts
from tests.matrix import IN_A_CLUSTER, IN_A_VPC, MATRIX
from tests.stacks.lint import findings
from tests.stacks.templates import node_group, outputs
from tests.stacks.test_policy import retained
from tests.synthesis import Of, Synthesised

CLUSTER, VPC, SUBNETS, GROUP = (
    MATRIX[IN_A_CLUSTER][f"aws.{field}"]
    for field in ("cluster", "vpc", "subnets", "cluster_security_group")
)
NETWORKS: Final = ("VPC", "Subnet", "NatGateway", "RouteTable", "InternetGateway", "VPCEndpoint")


@pytest.fixture(scope="module")
def guest(of_matrix: Of) -> Synthesised:
    return of_matrix(IN_A_CLUSTER)


def named_after(synthesised: Synthesised, *types: str) -> list[Any]:
    of_type = (r["Properties"] for t in types for _, r in synthesised.resources(t))
    return [properties["ClusterName"] for properties in of_type]


def test_neither_cluster_nor_vpc_is_made_and_so_none_is_deleted(guest: Synthesised) -> None:
    assert "network" not in guest.stacks
    types = {resource["Type"] for _, resource in guest.resources()}
    assert not types & {f"AWS::EC2::{kind}" for kind in NETWORKS}
    assert not types & {"AWS::EKS::Cluster", "AWS::EKS::Addon"}
    # What stays, and is deleted with KEEP=none, is the bucket: no log group of the cluster.
    assert [resource["Type"] for resource in retained(guest)] == ["AWS::S3::Bucket"]
    for logical_id, resource in guest.resources():
        for key, value in resource.get("Properties", {}).items():
            is_own_name = key.endswith("Name") and key != "ClusterName"
            assert not (is_own_name and CLUSTER in json.dumps(value)), f"{logical_id}.{key}"
    assert findings(guest) == []


def test_every_name_of_a_cluster_is_the_existing_ones(guest: Synthesised) -> None:
    kinds = ("AccessEntry", "Nodegroup", "PodIdentityAssociation")
    names = named_after(guest, *(f"AWS::EKS::{kind}" for kind in kinds))
    # It has Neuron's DRA driver already.
    assert named_after(guest, "Custom::AWSCDK-EKS-HelmChart") == []
    names += named_after(guest, "Custom::AWSCDK-EKS-KubernetesResource")
    assert len(names) > 10
    assert {*names} == {CLUSTER}
    text = json.dumps([guest.template(stack) for stack in guest.stacks])
    for place in ("cluster/", "--cluster-name ", "update-kubeconfig --name "):
        assert place + CLUSTER in text
        assert place + "guest" not in text
    (machine,) = (r for _, r in guest.resources("AWS::StepFunctions::StateMachine"))
    assert f'\\"ClusterName\\":\\"{CLUSTER}\\"' in json.dumps(machine)
    assert f'\\"ClusterName\\",\\"{CLUSTER}\\"' in json.dumps(guest.template("observability"))


def test_nodes_and_the_handler_are_in_the_existing_subnets(guest: Synthesised) -> None:
    assert node_group(guest, "trainium")["Subnets"] == [SUBNETS[1]]
    assert node_group(guest, "compile")["Subnets"] == SUBNETS
    for _, function in guest.resources("AWS::Lambda::Function"):
        place = {"SecurityGroupIds": [GROUP], "SubnetIds": SUBNETS}
        assert function["Properties"]["VpcConfig"] == place
    interfaces = json.dumps([r for _, r in guest.resources("AWS::EC2::LaunchTemplate")])
    assert f'"Groups": ["{GROUP}"' in interfaces


def test_a_deploy_gets_in_by_access_entries(guest: Synthesised) -> None:
    template = guest.template("cluster")["Resources"]
    entries = [r for r in template.values() if r["Type"] == "AWS::EKS::AccessEntry"]
    roles = [entry["Properties"]["PrincipalArn"]["Fn::GetAtt"][0] for entry in entries]
    assert [template[role]["Type"] for role in roles] == ["AWS::IAM::Role"] * 2
    policies = json.dumps([entry["Properties"]["AccessPolicies"] for entry in entries])
    assert policies.count("cluster-access-policy/AmazonEKSClusterAdminPolicy") == 2


def test_a_cluster_that_is_made_in_an_existing_vpc(of_matrix: Of) -> None:
    tenant = of_matrix(IN_A_VPC)
    assert "network" not in tenant.stacks
    ((_, cluster),) = tenant.resources("AWS::EKS::Cluster")
    network = cluster["Properties"]["ResourcesVpcConfig"]
    assert network["SubnetIds"] == SUBNETS
    # A public address goes to the public endpoint, and a private one through the VPC.
    assert network["EndpointPublicAccess"] is network["EndpointPrivateAccess"] is True
    assert network["PublicAccessCidrs"] == ["203.0.113.0/24"]
    (rule,) = (
        rule
        for _, group in tenant.resources("AWS::EC2::SecurityGroup")
        for rule in group["Properties"].get("SecurityGroupIngress", [])
    )
    assert (rule["CidrIp"], rule["FromPort"]) == ("10.8.0.0/16", 443)
    assert outputs(tenant, "cluster")["ClusterName"] == "tenant"
    # CPU nodes stand in the one zone that the file names.
    groups = [r["Properties"]["Subnets"] for _, r in tenant.resources("AWS::EKS::Nodegroup")]
    assert sorted(groups) == [[SUBNETS[0]], [SUBNETS[0]], [SUBNETS[1]]]


def test_what_others_pay_for_is_not_counted(guest: Synthesised, of_matrix: Of) -> None:
    counted = {part.name: part.count for part in parts(guest.experiment)}
    assert [*counted] == ["keys", "compile nodes", "their volumes", "Trainium nodes"]
    for each in (guest, of_matrix(IN_A_VPC)):
        counted = {part.name: part.count for part in parts(each.experiment)}
        assert counted["keys"] == len([*each.resources("AWS::KMS::Key")])
        assert counted.get("EKS control plane", 0) == len([*each.resources("AWS::EKS::Cluster")])
