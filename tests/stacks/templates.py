"""What stands in the templates of variants that are measured apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from charts.names import NODE_GROUP_LABEL
from tests.synthesis import Synthesised


def widgets(synthesised: Synthesised) -> Iterator[dict[str, Any]]:
    """Those of the dashboards that compare."""
    for _, dashboard in synthesised.resources("AWS::CloudWatch::Dashboard"):
        if "comparison" in dashboard["Properties"]["DashboardName"]:
            body = dashboard["Properties"]["DashboardBody"]
            parts = [body] if isinstance(body, str) else body["Fn::Join"][1]
            text = "".join(piece if isinstance(piece, str) else "us-east-2" for piece in parts)
            yield from json.loads(text)["widgets"]


def node_group(synthesised: Synthesised, label: str) -> dict[str, Any]:
    """Properties of the node group whose nodes have the project's label with that value."""
    (group,) = (
        resource["Properties"]
        for _, resource in synthesised.resources("AWS::EKS::Nodegroup")
        if resource["Properties"].get("Labels") == {NODE_GROUP_LABEL: label}
    )
    properties: dict[str, Any] = group
    return properties


def sized(
    synthesised: Synthesised, size: dict[str, Any], parameter: str, *, keep: bool
) -> dict[str, Any]:
    """A node group's size as CloudFormation reads it, with its stack's parameter as given."""
    template = synthesised.template("trainium")
    assert template["Parameters"][parameter]["AllowedValues"] == ["true", "false"]
    assert template["Parameters"][parameter]["Default"] == "false"
    condition, if_kept, otherwise = size["DesiredSize"]["Fn::If"]
    assert template["Conditions"][condition] == {"Fn::Equals": [{"Ref": parameter}, "true"]}
    assert if_kept == {"Ref": "AWS::NoValue"}
    fixed = {key: value for key, value in size.items() if key != "DesiredSize"}
    return fixed if keep else fixed | {"DesiredSize": otherwise}


def outputs(synthesised: Synthesised, stack: str) -> dict[str, Any]:
    """Values of a stack's outputs."""
    values = synthesised.template(stack)["Outputs"]
    return {name: output["Value"] for name, output in values.items()}


def statements(synthesised: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    """Consumer and statement of every policy of the model store."""
    for logical_id, resource in synthesised.template("model-store")["Resources"].items():
        if resource["Type"] == "AWS::IAM::Policy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                yield logical_id.partition("Role")[0], statement


def listed(value: Any) -> list[Any]:
    """A policy has one or a list."""
    return value if isinstance(value, list) else [value]


def below_bucket(resource: Any) -> str:
    """``models/*`` of the resource ``<bucket>/models/*``."""
    return "*" if resource == "*" else json.dumps(resource).rpartition('"/')[2].rpartition('"')[0]
