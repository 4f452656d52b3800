"""What holds for every stack of every experiment: lint, security, tags, least privilege."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks
from cfnlint.helpers import REGIONS as ALL_REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from app import compose
from charts.names import BUDGET_REGIONS, FALLBACK_REGION, budget_region
from operations.preflight.account import BOOTSTRAP_VERSION
from stacks.delivery import stack_regions
from tests.matrix import BLOCK_IN_MELBOURNE, MATRIX
from tests.stacks.lint import findings
from tests.stacks.templates import listed
from tests.stacks.test_snapshots import STACKS
from tests.synthesis import ACCOUNT, CONTEXT, Synthesised, Vary


def test_every_stack_is_there_with_its_region_and_the_tag_it_is_found_by(each: Synthesised) -> None:
    region = each.experiment.aws.region
    artifacts = json.loads((each.directory / "manifest.json").read_text())["artifacts"]
    stacks = {n: a for n, a in artifacts.items() if a["type"] == "aws:cloudformation:stack"}
    assert {*stacks} == {f"{each.experiment.name}-{stack}" for stack in STACKS}
    for name, stack in stacks.items():
        expected = budget_region(region) if name.endswith("budget") else region
        assert stack["environment"] == f"aws://unknown-account/{expected}", name
        assert stack["properties"].get("tags") == each.experiment.tags, name
    # Preflight looks for these, and asks for the bootstrap that they need.
    needed = [stack["properties"]["requiresBootstrapStackVersion"] for stack in stacks.values()]
    assert max(needed) == BOOTSTRAP_VERSION
    assert stack_regions(each.experiment).keys() == stacks.keys()


def test_a_budget_is_made_where_the_resource_registry_has_budgets() -> None:
    assert budget_region("ap-southeast-4") == FALLBACK_REGION
    others = ("us-gov", "us-iso", "cn-", "eu-iso", "eusc-")
    has_budgets = {
        region
        for region in ALL_REGIONS
        if not region.startswith(others)
        and "AWS::Budgets::Budget" in PROVIDER_SCHEMA_MANAGER.get_resource_types(region)
    }
    assert has_budgets == BUDGET_REGIONS


def test_cfn_lint_finds_no_error(each: Synthesised) -> None:
    assert findings(each) == []


def test_cdk_nag_would_fail_synthesis(tmp_path: Path) -> None:
    """As it would every fixture that synthesises."""
    app = cdk.App(outdir=str(tmp_path))
    s3.Bucket(cdk.Stack(app, "Careless"), "Bucket")
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="AwsSolutions-S10"):
        app.synth()


# Actions that know no resource-level permissions (Service Authorization Reference).
WITHOUT_RESOURCES = {
    "cloudwatch:PutMetricData",
    "ec2:DescribeTags",
    "ec2:DescribeVolumes",
    "logs:DescribeLogGroups",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
}


def test_everything_is_allowed_only_where_nothing_narrower_can_be(each: Synthesised) -> None:
    for logical_id, policy in each.resources("AWS::IAM::Policy"):
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions = {*listed(statement["Action"])}
            assert not any(action.endswith("*") for action in actions), logical_id
            if statement["Resource"] == "*":
                assert actions <= WITHOUT_RESOURCES, logical_id


UNTAGGABLE = {
    # The CDK's own custom resources, and what they are not told.
    "Custom::AWSCDK-EKS-HelmChart",
    "Custom::AWSCDK-EKS-KubernetesResource",
    "Custom::VpcRestrictDefaultSG",
}


def _is_taggable(kind: str) -> bool:
    """By cfn-lint's copy of the resource registry."""
    if kind in UNTAGGABLE:
        return False
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", kind).schema
    return bool(schema.get("tagging", {}).get("taggable", schema.get("taggable")))


def test_every_taggable_resource_carries_the_tags_of_the_file(each: Synthesised) -> None:
    untagged = [
        f"{logical_id} ({resource['Type']}) {tag}"
        for logical_id, resource in each.resources()
        if _is_taggable(resource["Type"])
        for tag in each.experiment.tags.items()
        if not _has_tag(resource.get("Properties", {}), *tag)
    ]
    assert untagged == []


def test_instances_volumes_and_interfaces_carry_them_too(each: Synthesised) -> None:
    """EKS passes no tag of a node group on, and a tag policy would refuse the instance."""
    for logical_id, template in each.resources("AWS::EC2::LaunchTemplate"):
        listed = template["Properties"]["LaunchTemplateData"]["TagSpecifications"]
        tags = {each["ResourceType"]: each["Tags"] for each in listed}
        assert {"instance", "volume", "network-interface"} <= tags.keys(), logical_id
        for key, value in each.experiment.tags.items():
            assert all({"Key": key, "Value": value} in tagged for tagged in tags.values())


def _has_tag(properties: dict[str, Any], key: str, value: str) -> bool:
    """Whether the tag stands in it, in any of CloudFormation's three spellings."""
    text = json.dumps(properties)
    return f'"Key": "{key}", "Value": "{value}"' in text or f'"{key}": "{value}"' in text


NAMES = {"AWS::S3::Bucket": "BucketName", "AWS::Logs::LogGroup": "LogGroupName"}
"""What outlives a stack, and by which property CloudFormation takes it back."""


def test_a_function_writes_no_log_that_outlives_its_stack(each: Synthesised) -> None:
    """Lambda makes a group for a function that has none, and nobody deletes it."""
    groups = json.dumps([r for _, r in each.resources("AWS::Logs::LogGroup")])
    functions = [*each.resources("AWS::Lambda::Function")]
    assert functions
    for logical_id, function in functions:
        named = function["Properties"].get("LoggingConfig", {}).get("LogGroup")
        assert named or f'"/aws/lambda/", {{"Ref": "{logical_id}"}}' in groups, logical_id


def test_with_an_account_a_deploy_takes_back_all_that_an_earlier_one_left(
    variation: Vary, tmp_path: Path
) -> None:
    """CloudFormation does so by literal names, and only what has the deletion policy Retain."""
    app = cdk.App(outdir=str(tmp_path), context=CONTEXT)
    experiment = variation(MATRIX[BLOCK_IN_MELBOURNE])
    compose(app, experiment, ACCOUNT)
    app.synth()
    assert "missing" not in json.loads((tmp_path / "manifest.json").read_text())
    deployed = Synthesised(experiment, tmp_path)
    names = [resource["Properties"][NAMES[resource["Type"]]] for resource in retained(deployed)]
    assert f"{experiment.name}-models-{ACCOUNT}-{experiment.aws.region}" in names
    assert [name for name in names if not isinstance(name, str) or "$" in name] == []
    assert {resource["DeletionPolicy"] for resource in retained(deployed)} == {"Retain"}


def retained(synthesised: Synthesised) -> list[dict[str, Any]]:
    return [
        resource
        for _, resource in synthesised.resources()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    ]
