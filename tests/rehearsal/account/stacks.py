"""Stacks in an embedded AWS without the CLI, which takes longer to start than they to be made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.aws.client import Aws
from tests.synthesis import Synthesised

NEEDED: Final = ("network", "model-store", "cluster", "trainium")
"""In this order, each needs those before it."""
_EMPTY_ZIP: Final = b"PK\x05\x06" + bytes(18)


def prepare(aws: Aws) -> None:
    """What a bootstrap leaves that a template asks for."""
    name = "/cdk-bootstrap/hnb659fds/version"
    aws.client("ssm").put_parameter(Name=name, Value="30", Type="String", Overwrite=True)
    where = {"LocationConstraint": aws.region}
    aws.client("s3").create_bucket(Bucket=_assets(aws), CreateBucketConfiguration=where)


def make(aws: Aws, synthesised: Synthesised, *names: str) -> dict[str, str]:
    """Makes stacks of an experiment, with functions that have no code; outputs of the last."""
    for name in names:
        _upload(aws, synthesised, name)
        stack = f"{synthesised.experiment.name}-{name}"
        change(aws, stack, "CREATE", synthesised.template(name))
        assert status(aws, stack) == "CREATE_COMPLETE", said(aws, stack)
    return outputs(aws, stack)


def change(aws: Aws, stack: str, kind: str, template: Mapping[str, Any], **asked: Any) -> None:
    """Carries out a change set."""
    cloudformation = aws.client("cloudformation")
    cloudformation.create_change_set(
        StackName=stack,
        ChangeSetName="changes",
        ChangeSetType=kind,
        TemplateBody=json.dumps(template),
        **asked,
    )
    cloudformation.execute_change_set(StackName=stack, ChangeSetName="changes")


def status(aws: Aws, stack: str) -> str:
    """The status of a stack."""
    (found,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    its: str = found["StackStatus"]
    return its


def outputs(aws: Aws, stack: str) -> dict[str, str]:
    """The outputs of a stack."""
    (found,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}


def said(aws: Aws, stack: str) -> list[tuple[str, str, str]]:
    """Resource, status and reason of each event, from the oldest on."""
    found = aws.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    return [
        (event["LogicalResourceId"], event["ResourceStatus"], event.get("ResourceStatusReason", ""))
        for event in reversed(found)
    ]


def _upload(aws: Aws, synthesised: Synthesised, name: str) -> None:
    path = synthesised.directory / f"{synthesised.experiment.name}-{name}.assets.json"
    for file in json.loads(path.read_text())["files"].values():
        for destination in file["destinations"].values():
            aws.client("s3").put_object(
                Bucket=_assets(aws), Key=destination["objectKey"], Body=_EMPTY_ZIP
            )


def _assets(aws: Aws) -> str:
    return f"cdk-hnb659fds-assets-{aws.account}-{aws.region}"
