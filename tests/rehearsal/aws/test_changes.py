"""Change sets and deletions: what CloudFormation does with them, and moto does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from rehearsal.aws.client import Aws
from tests.rehearsal.account.stacks import change, outputs, said, status


def topic(name: str, **more: Any) -> dict[str, Any]:
    return {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": name}} | more


def parameter(value: Any, name: str | None = None) -> dict[str, Any]:
    told = {"Type": "String", "Value": value} | ({"Name": name} if name else {})
    return {"Type": "AWS::SSM::Parameter", "Properties": told}


def template(resources: dict[str, Any], **named: Any) -> dict[str, Any]:
    """With an output for each value in ``named``."""
    found: dict[str, Any] = {"Resources": resources}
    return found | {"Outputs": {name: {"Value": value} for name, value in named.items()}}


def topics(aws: Aws) -> set[str]:
    found = aws.client("sns").list_topics()["Topics"]
    return {each["TopicArn"].rpartition(":")[2] for each in found}


def test_moto_has_no_outputs_after_a_change_set(unmended: Any) -> None:
    stacks = unmended("cloudformation")
    asked = {"StackName": "bare", "ChangeSetName": "changes"}
    body = json.dumps(template({"Topic": topic("bare")}, Arn={"Ref": "Topic"}))
    stacks.create_change_set(**asked, ChangeSetType="CREATE", TemplateBody=body)
    stacks.execute_change_set(**asked)
    assert not stacks.describe_stacks(StackName="bare")["Stacks"][0].get("Outputs")


def test_a_stack_has_outputs_and_another_refers_to_them(aws: Aws) -> None:
    change(aws, "first", "CREATE", template({"Topic": topic("one")}, Arn={"Ref": "Topic"}))
    (arn,) = outputs(aws, "first").values()
    reference = {"StackName": "first", "Region": aws.region, "OutputName": "Arn"}
    other = parameter({"Fn::GetStackOutput": reference}, "of-another")
    change(aws, "second", "CREATE", template({"Copy": other}))
    found = aws.client("ssm").get_parameter(Name="of-another")["Parameter"]["Value"]
    assert found == arn


def test_an_output_that_is_not_there_fails_the_stack(aws: Aws) -> None:
    reference = {"StackName": "first", "Region": aws.region, "OutputName": "None"}
    change(
        aws,
        "third",
        "CREATE",
        template({"Copy": parameter({"Fn::GetStackOutput": reference})}),
    )
    assert status(aws, "third") == "ROLLBACK_COMPLETE"
    assert any("Stack first has no output None" in why for _, _, why in said(aws, "third"))


def test_resources_are_made_and_deleted_in_the_order_of_their_dependencies(aws: Aws) -> None:
    resources = {
        "Last": topic("last", DependsOn=["Middle"]),
        "Middle": topic("middle", DependsOn="First"),
        "First": topic("first"),
        "Named": parameter({"Fn::Sub": "${Last}"}),
    }
    change(aws, "ordered", "CREATE", template(resources))
    found = aws.client("cloudformation").describe_stacks(StackName="ordered")["Stacks"]
    made = [name for name, what, _ in said(aws, "ordered") if what == "CREATE_COMPLETE"]
    assert made == ["First", "Middle", "Last", "Named", "ordered"]
    aws.client("cloudformation").delete_stack(StackName="ordered")
    gone = [n for n, what, _ in said(aws, found[0]["StackId"]) if what == "DELETE_COMPLETE"]
    assert gone == ["Named", "Last", "Middle", "First", "ordered"]


def test_a_stack_that_cannot_be_made_is_rolled_back_and_says_why(aws: Aws) -> None:
    where = {"LocationConstraint": aws.region}
    aws.client("s3").create_bucket(Bucket="taken", CreateBucketConfiguration=where)
    taken = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "taken"}}
    resources = {"Topic": topic("rolled-back"), "Bucket": taken | {"DependsOn": "Topic"}}
    change(aws, "impossible", "CREATE", template(resources))
    assert status(aws, "impossible") == "ROLLBACK_COMPLETE"
    (why,) = [why for name, what, why in said(aws, "impossible") if what == "CREATE_FAILED"]
    assert "BucketAlreadyExists" in why
    assert "rolled-back" not in topics(aws)


def test_an_update_makes_changes_and_removes(aws: Aws) -> None:
    before = {"Old": topic("old"), "Value": parameter("1", "value"), "Kept": topic("kept")}
    change(aws, "updated", "CREATE", template(before))
    after = {"New": topic("new"), "Value": parameter("2", "value"), "Kept": topic("kept")}
    change(aws, "updated", "UPDATE", template(after, Name={"Ref": "Value"}))
    assert status(aws, "updated") == "UPDATE_COMPLETE"
    assert aws.client("ssm").get_parameter(Name="value")["Parameter"]["Value"] == "2"
    assert {"new", "kept"} <= topics(aws)
    assert "old" not in topics(aws)
    assert outputs(aws, "updated") == {"Name": "value"}
    touched = {name for name, what, _ in said(aws, "updated") if what.startswith("UPDATE")}
    assert touched == {"Value", "updated"}


def test_what_is_referred_to_changes_who_refers(aws: Aws) -> None:
    value = {"Fn::GetAtt": ["Topic", "TopicName"]}
    resources = {"Topic": topic("before"), "Value": parameter(value, "referring")}
    change(aws, "referred", "CREATE", template(resources))
    resources["Topic"] = topic("after")
    change(aws, "referred", "UPDATE", template(resources))
    assert aws.client("ssm").get_parameter(Name="referring")["Parameter"]["Value"] == "after"


def test_what_is_to_be_retained_outlives_its_stack(aws: Aws) -> None:
    resources = {"Kept": topic("retained", DeletionPolicy="Retain"), "Gone": topic("gone")}
    change(aws, "retaining", "CREATE", template(resources))
    aws.client("cloudformation").delete_stack(StackName="retaining")
    assert "retained" in topics(aws)
    assert "gone" not in topics(aws)
    with pytest.raises(ClientError, match="does not exist"):
        status(aws, "retaining")


def test_a_stack_whose_deletion_fails_is_still_there(aws: Aws) -> None:
    network = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.8.0.0/16"}}
    change(aws, "stuck", "CREATE", template({"Vpc": network}, Vpc={"Ref": "Vpc"}))
    ec2, (vpc,) = aws.client("ec2"), outputs(aws, "stuck").values()
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.8.0.0/24")["Subnet"]["SubnetId"]
    aws.client("cloudformation").delete_stack(StackName="stuck")
    assert status(aws, "stuck") == "DELETE_FAILED"
    ec2.delete_subnet(SubnetId=subnet)
    aws.client("cloudformation").delete_stack(StackName="stuck")
    with pytest.raises(ClientError, match="does not exist"):
        status(aws, "stuck")


def test_a_change_set_that_nobody_carried_out_makes_no_second_stack(aws: Aws) -> None:
    stacks = aws.client("cloudformation")
    asked = {"StackName": "twice", "ChangeSetType": "CREATE"}
    body = json.dumps(template({"Topic": topic("twice")}))
    stacks.create_change_set(**asked, ChangeSetName="abandoned", TemplateBody=body)
    assert status(aws, "twice") == "REVIEW_IN_PROGRESS"
    change(aws, "twice", "CREATE", template({"Topic": topic("twice")}))
    assert status(aws, "twice") == "CREATE_COMPLETE"


def test_the_name_of_a_change_set_is_its_stacks(aws: Aws) -> None:
    stacks = aws.client("cloudformation")
    for name in ("one", "other"):
        change(aws, name, "CREATE", template({"Topic": topic(name)}))
    stacks.delete_change_set(StackName="other", ChangeSetName="changes")
    stacks.delete_change_set(StackName="other", ChangeSetName="changes")
    found = stacks.describe_change_set(StackName="one", ChangeSetName="changes")
    assert found["StackName"] == "one"
    with pytest.raises(ClientError, match="ChangeSetNotFound"):
        stacks.describe_change_set(StackName="other", ChangeSetName="changes")


def test_an_update_keeps_the_name_of_a_parameter_of_ssm(aws: Aws) -> None:
    change(aws, "named", "CREATE", template({"Named": parameter("7", "/one/that/is/read")}))
    read = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/one/that/is/read"}
    before = template({"Copy": parameter({"Ref": "Read"}, "copy")}) | {"Parameters": {"Read": read}}
    change(aws, "reading", "CREATE", before)
    after = template(before["Resources"] | {"Topic": topic("beside")}) | {
        "Parameters": {"Read": read}
    }
    previous = [{"ParameterKey": "Read", "UsePreviousValue": True}]
    change(aws, "reading", "UPDATE", after, Parameters=previous)
    assert status(aws, "reading") == "UPDATE_COMPLETE", said(aws, "reading")
    assert aws.client("ssm").get_parameter(Name="copy")["Parameter"]["Value"] == "7"


def test_a_log_group_that_was_left_is_taken_back(aws: Aws) -> None:
    aws.client("logs").create_log_group(logGroupName="/left/behind")
    group = {
        "Type": "AWS::Logs::LogGroup",
        "DeletionPolicy": "Retain",
        "Properties": {"LogGroupName": "/left/behind"},
    }
    change(aws, "logs", "CREATE", template({"Group": group}), ImportExistingResources=True)
    assert status(aws, "logs") == "CREATE_COMPLETE"
    change(aws, "again", "CREATE", template({"Group": group}))
    assert status(aws, "again") == "ROLLBACK_COMPLETE"
