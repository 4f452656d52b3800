"""What pods of ours could do with their roles if someone else ran in them. See docs/security.md."""

from __future__ import annotations

import json
from typing import Any

from tests.stacks.templates import listed, statements
from tests.synthesis import Synthesised, containers

POD_IDENTITY = "pods.eks.amazonaws.com"

ALL_THAT_PODS_MAY = {
    "cloudwatch:PutMetricData",
    "s3:AbortMultipartUpload",
    "s3:GetObject",
    "s3:ListBucket",
    "s3:PutObject",
    "secretsmanager:GetSecretValue",
    "states:StartExecution",
}


def test_no_pod_may_start_a_node_delete_an_object_or_give_rights(each: Synthesised) -> None:
    granted = {
        action for _, statement in statements(each) for action in listed(statement["Action"])
    }
    assert granted <= ALL_THAT_PODS_MAY
    # And by no other way: a role of a pod has no policies but these.
    roles = each.template("model-store")["Resources"]
    for logical_id, role in roles.items():
        if role["Type"] == "AWS::IAM::Role":
            assert POD_IDENTITY in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])
            assert not {"ManagedPolicyArns", "Policies"} & set(role["Properties"]), logical_id


def test_pods_have_no_roles_but_those_of_the_model_store(each: Synthesised) -> None:
    for _, identity in each.resources("AWS::EKS::PodIdentityAssociation"):
        reference = identity["Properties"]["RoleArn"]["Fn::GetStackOutput"]
        assert reference["StackName"] == f"{each.experiment.name}-model-store"


def test_a_role_is_for_the_pods_of_one_service_account_of_this_cluster(each: Synthesised) -> None:
    """EKS sets the tags itself, so no other cluster and no other pod can take the role."""
    name = each.experiment.name
    service_accounts = {
        (identity["Properties"]["Namespace"], identity["Properties"]["ServiceAccount"])
        for _, identity in each.resources("AWS::EKS::PodIdentityAssociation")
    }
    addons = {("kube-system", "aws-node"), ("amazon-cloudwatch", "cloudwatch-agent")}
    trusted = set()
    for _, role in each.resources("AWS::IAM::Role"):
        for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
            if statement["Principal"] == {"Service": POD_IDENTITY}:
                tags = statement["Condition"]["StringEquals"]
                cluster = json.dumps(tags["aws:RequestTag/eks-cluster-arn"])
                assert cluster.endswith(f':cluster/{name}"]]}}')
                trusted.add(
                    (
                        tags["aws:RequestTag/kubernetes-namespace"],
                        tags["aws:RequestTag/kubernetes-service-account"],
                    )
                )
    assert trusted == service_accounts | addons


def test_what_pods_may_start_only_scales_to_zero(each: Synthesised) -> None:
    machines = dict(each.resources("AWS::StepFunctions::StateMachine"))
    assert len(machines) == 1
    for machine in machines.values():
        name = machine["Properties"]["StateMachineName"]
        sizes = [state["Parameters"]["ScalingConfig"] for state in tasks(machine)]
        assert sizes == [{"MinSize": 0, "DesiredSize": 0}]
        for _, statement in statements(each):
            if statement["Action"] == "states:StartExecution":
                assert json.dumps(statement["Resource"]).endswith(f':stateMachine:{name}"]]}}')


def tasks(machine: dict[str, Any]) -> list[dict[str, Any]]:
    """The states that call something, of a definition whose references are of no matter here."""
    definition = machine["Properties"]["DefinitionString"]
    parts = [definition] if isinstance(definition, str) else definition["Fn::Join"][1]
    text = "".join(piece if isinstance(piece, str) else "reference" for piece in parts)
    return [state for state in json.loads(text)["States"].values() if state["Type"] == "Task"]


def test_nothing_outside_the_cluster_can_reach_a_pod(each: Synthesised) -> None:
    for service in each.objects("Service"):
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP"
        assert not {"externalIPs", "loadBalancerIP"} & set(service["spec"])
    assert not [*each.objects("Ingress"), *each.objects("Gateway")]
    for name, pod in each.pods():
        for container in containers(pod):
            assert not any("hostPort" in port for port in container.get("ports", [])), name


def test_pods_reach_the_internet_by_https_alone_and_no_instance_metadata(
    each: Synthesised,
) -> None:
    peers = {
        (peer["ipBlock"]["cidr"], port["port"])
        for policy in each.objects("NetworkPolicy")
        for rule in policy["spec"].get("egress", [])
        for peer in rule["to"]
        if "ipBlock" in peer
        for port in rule["ports"]
    }
    # The second is EKS Pod Identity's agent.
    assert peers == {("0.0.0.0/0", 443), ("169.254.170.23/32", 80)}
