"""The roles of GitHub's workflows: who gets them, and that neither can do more than it must."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from cfnlint import lint

from app import compose_delivery
from experiment import load
from stacks.delivery import AUDIENCE, ISSUER
from tests.conftest import edited
from tests.experiment.files import REGION
from tests.stacks.templates import listed
from tests.stacks.test_snapshots import STACKS
from tests.synthesis import ACCOUNT, CONTEXT, Synthesised

DELIVERY = {"repository": "us/here", "branch": "main", "environment": "aws"}
READING = ("Describe", "Get", "List")
BOOTSTRAP = f"arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-{{}}-role-{ACCOUNT}-{{}}"


def synthesise(directory: Path, account: str | None = ACCOUNT, **delivery: str) -> dict[str, Any]:
    file = edited(directory, {"delivery": DELIVERY | delivery})
    app = cdk.App(outdir=str(directory / "cdk.out"), context=CONTEXT)
    compose_delivery(app, load(str(file)), account)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()  # fails on a finding of cdk-nag
    (path,) = (directory / "cdk.out").glob("*.template.json")
    assert path.name == "article-delivery.template.json"
    template: dict[str, Any] = json.loads(path.read_text())
    return template


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return synthesise(tmp_path_factory.mktemp("delivery"))


def allowed(template: dict[str, Any], role: str) -> dict[str, list[Any]]:
    resources: dict[str, list[Any]] = {}
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::IAM::Policy" and logical_id.startswith(role):
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                assert statement["Effect"] == "Allow"
                for action in listed(statement["Action"]):
                    resources.setdefault(action, []).extend(listed(statement["Resource"]))
    return resources


def trust(template: dict[str, Any], role: str) -> dict[str, Any]:
    (document,) = (
        resource["Properties"]["AssumeRolePolicyDocument"]
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == "AWS::IAM::Role" and logical_id.startswith(role)
    )
    (statement,) = document["Statement"]
    return dict(statement)


def test_guards_are_of_its_own_node_groups(
    template: dict[str, Any], synthesised: Synthesised
) -> None:
    """EKS calls a scaling group after the node group, which CloudFormation calls after its id."""
    arns = allowed(template, "Deploy")["autoscaling:PutScheduledUpdateGroupAction"]
    names = [arn.rpartition("autoScalingGroupName/eks-")[2].removesuffix("*") for arn in arns]
    resources = synthesised.template("trainium")["Resources"].items()
    ids = [id for id, resource in resources if resource["Type"] == "AWS::EKS::Nodegroup"]
    assert len(ids) == len(names) == 2
    assert all(any(id.startswith(name) for name in names) for id in ids)
    assert '{"StringEquals": {"aws:ResourceTag/eks:cluster-name": "article"}}' in json.dumps(
        template
    )


def test_it_is_sound(tmp_path: Path) -> None:
    template = synthesise(tmp_path, None)
    errors = [m for m in lint(json.dumps(template), regions=[REGION]) if m.rule.id[0] == "E"]
    assert errors == []


@pytest.mark.parametrize(
    ("role", "conditions"),
    [
        ("Diff", {"sub": "repo:us/here:pull_request"}),
        ("Deploy", {"sub": "repo:us/here:environment:aws", "ref": "refs/heads/main"}),
    ],
)
def test_a_role_is_for_one_subject(
    template: dict[str, Any], role: str, conditions: dict[str, str]
) -> None:
    statement = trust(template, role)
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Principal"] == {"Federated": {"Fn::GetAtt": ["GitHub", "Arn"]}}
    claims = {"aud": AUDIENCE} | conditions
    assert statement["Condition"] == {
        "StringEquals": {f"{ISSUER}:{claim}": value for claim, value in claims.items()}
    }


def test_pull_requests_only_read_templates(template: dict[str, Any]) -> None:
    by_action = allowed(template, "Diff")
    assert {*by_action} == {"cloudformation:DescribeStacks", "cloudformation:GetTemplate"}
    for resources in by_action.values():
        assert {r.split("/")[1] for r in resources} == {f"article-{stack}" for stack in STACKS}


def test_a_deploy_changes_the_experiment_alone(template: dict[str, Any]) -> None:
    by_action = allowed(template, "Deploy")
    changing = {a for a in by_action if not a.partition(":")[2].startswith(READING)}
    assert changing == {
        "autoscaling:PutScheduledUpdateGroupAction",
        "autoscaling:UpdateAutoScalingGroup",
        "eks:UpdateNodegroupConfig",
        "s3:PutObject",
        "states:StopExecution",
        "sts:AssumeRole",
    }
    for action in changing:
        if action.startswith("autoscaling:"):
            continue  # by the cluster, above
        for resource in by_action[action]:
            assert "article" in resource or resource.startswith(
                f"arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-"
            )
    assert all(resource.endswith("/logs/*") for resource in by_action["s3:PutObject"])
    for kind in ("deploy", "file-publishing", "image-publishing", "lookup"):
        assert BOOTSTRAP.format(kind, REGION) in by_action["sts:AssumeRole"]
    assert not any("cfn-exec" in resource for resource in by_action["sts:AssumeRole"])


def test_a_provider_that_is_there_is_used(tmp_path: Path) -> None:
    template = synthesise(tmp_path, provider="there")
    assert "AWS::IAM::OIDCProvider" not in {r["Type"] for r in template["Resources"].values()}
    federated = {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{ISSUER}"}
    assert trust(template, "Diff")["Principal"] == federated
