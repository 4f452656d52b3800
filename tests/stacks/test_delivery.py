"""The roles of GitHub's workflows: who gets them and what they may do is a snapshot."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from cfnlint import lint
from syrupy.assertion import SnapshotAssertion

from app import compose_delivery
from experiment import load
from stacks.delivery import ISSUER
from tests.conftest import edited
from tests.experiment.files import REGION
from tests.snapshots import TemplateSnapshot, readable
from tests.stacks.templates import listed
from tests.stacks.test_snapshots import STACKS
from tests.synthesis import ACCOUNT, CONTEXT, Synthesised

DELIVERY = {"repository": "us/here", "branch": "main", "environment": "aws"}


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


def test_the_whole_template(template: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert readable(template) == snapshot(extension_class=TemplateSnapshot)


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


def test_pull_requests_only_read_templates(template: dict[str, Any]) -> None:
    by_action = allowed(template, "Diff")
    assert {*by_action} == {"cloudformation:DescribeStacks", "cloudformation:GetTemplate"}
    for resources in by_action.values():
        assert {r.split("/")[1] for r in resources} == {f"article-{stack}" for stack in STACKS}


def test_a_provider_that_is_there_is_used(tmp_path: Path) -> None:
    template = synthesise(tmp_path, provider="there")
    assert "AWS::IAM::OIDCProvider" not in {r["Type"] for r in template["Resources"].values()}
    federated = f'{{"Federated": "arn:aws:iam::{ACCOUNT}:oidc-provider/{ISSUER}"}}'
    assert json.dumps(template).count(federated) == 2
