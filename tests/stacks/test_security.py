"""What pods of ours could do with their roles if someone else ran in them. See docs/security.md."""

from __future__ import annotations

import json

from tests.stacks.templates import listed, resolved, statements
from tests.synthesis import Synthesised, containers

POD_IDENTITY = "pods.eks.amazonaws.com"
POD_TAGS = ("kubernetes-namespace", "kubernetes-service-account")

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
                cluster, *account = (
                    tags[f"aws:RequestTag/{tag}"] for tag in ("eks-cluster-arn", *POD_TAGS)
                )
                assert json.dumps(cluster).endswith(f':cluster/{name}"]]}}')
                trusted.add(tuple(account))
    assert trusted == service_accounts | addons


def test_what_pods_may_start_only_scales_to_zero(each: Synthesised) -> None:
    ((_, machine),) = each.resources("AWS::StepFunctions::StateMachine")
    definition = json.loads(resolved(machine["Properties"]["DefinitionString"]))
    tasks = [state for state in definition["States"].values() if state["Type"] == "Task"]
    sizes = [state["Parameters"]["ScalingConfig"] for state in tasks]
    assert sizes == [{"MinSize": 0, "DesiredSize": 0}]


def test_nothing_outside_the_cluster_can_reach_a_pod(each: Synthesised) -> None:
    for service in each.objects("Service"):
        assert service["spec"].get("type", "ClusterIP") == "ClusterIP"
        assert not {"externalIPs", "loadBalancerIP"} & set(service["spec"])
    assert not [*each.objects("Ingress"), *each.objects("Gateway")]
    for name, pod in each.pods():
        for container in containers(pod):
            assert not any("hostPort" in port for port in container.get("ports", [])), name
