"""What a stack has of another stands in its text, and changes when it would have another value."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from stacks.synthesizer import REPLACING, Synthesizer
from tests.synthesis import CONTEXT


def consumer(folder: Path, *, cidr: str = "10.0.0.0/16", path: str = "/", words: str = "") -> Any:
    """The template of a stack with a subnet and a role of another."""
    app = App(outdir=str(folder), context=CONTEXT)
    first = Stack(app, "first", synthesizer=Synthesizer())
    vpc = ec2.CfnVPC(first, "Vpc", cidr_block=cidr)
    subnet = ec2.CfnSubnet(first, "Subnet", vpc_id=vpc.ref, cidr_block="10.0.0.0/24")
    trust = iam.ServicePrincipal("ec2.amazonaws.com")
    role = iam.Role(first, "Role", assumed_by=trust, path=path, description=words or None)
    second = Stack(app, "second", synthesizer=Synthesizer())
    for name, value in (("Subnet", subnet.ref), ("Role", role.role_arn)):
        ssm.CfnParameter(second, name, type="String", value=value)
    stack = app.synth().get_stack_by_name("second")
    text = (folder / "second.template.json").read_bytes()
    # The CLI uploads it by its digest, and not again.
    url = stack.stack_template_asset_object_url
    assert url
    assert url.endswith(f"/{hashlib.sha256(text).hexdigest()}.json")
    resources = json.loads(text)["Resources"]
    return {name: resource["Properties"]["Value"] for name, resource in resources.items()}


def test_text_changes_with_what_replaces_the_other_resource(tmp_path: Path) -> None:
    before = consumer(tmp_path / "a")
    ((mark, (reference,)),) = [before["Subnet"]["Fn::Join"]]
    assert reference["Fn::GetStackOutput"]["StackName"] == "first"
    assert len(mark) == 8
    # Another network is another subnet, though the subnet's own text is the same.
    moved = consumer(tmp_path / "b", cidr="10.0.0.0/20")
    assert (moved["Subnet"] != before["Subnet"], moved["Role"] == before["Role"]) == (True, True)
    assert consumer(tmp_path / "c", path="/x/")["Role"] != before["Role"]
    assert consumer(tmp_path / "d", words="changed in place") == before


@pytest.mark.parametrize("type_", REPLACING)
def test_what_replaces_is_what_the_registry_says(type_: str) -> None:
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-2", type_).schema
    assert {each.split("/")[2] for each in schema["createOnlyProperties"]} == {*REPLACING[type_]}
