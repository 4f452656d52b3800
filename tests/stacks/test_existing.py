"""What the stacks make in a cluster or a VPC that exists, and that they make neither."""

import json
from typing import Any, Final

import pytest

from experiment.cost.prices import parts
from tests.matrix import IN_A_CLUSTER, IN_A_VPC, MATRIX
from tests.stacks.test_policy import retained
from tests.synthesis import Of, Synthesised

CLUSTER: Final = MATRIX[IN_A_CLUSTER]["aws.cluster"]
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


def test_what_others_pay_for_is_not_counted(guest: Synthesised, of_matrix: Of) -> None:
    counted = {part.name: part.count for part in parts(guest.experiment)}
    assert [*counted] == ["keys", "compile nodes", "their volumes", "Trainium nodes"]
    for each in (guest, of_matrix(IN_A_VPC)):
        counted = {part.name: part.count for part in parts(each.experiment)}
        assert counted["keys"] == len([*each.resources("AWS::KMS::Key")])
        assert counted.get("EKS control plane", 0) == len([*each.resources("AWS::EKS::Cluster")])
