"""What several tests look up in templates."""

import json
from collections.abc import Iterator
from typing import Any

from charts.names import NODE_GROUP_LABEL, node_label
from tests.experiment.files import REGION
from tests.synthesis import Synthesised


def widgets(template: dict[str, Any], dashboard: str = "Comparison") -> Iterator[dict[str, Any]]:
    """Those of the dashboards whose logical ids begin with ``dashboard``."""
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::CloudWatch::Dashboard" and logical_id.startswith(dashboard):
            yield from json.loads(resolved(resource["Properties"]["DashboardBody"]))["widgets"]


def resolved(value: Any, reference: str = REGION) -> str:
    """The text of a Fn::Join, with ``reference`` for all that is no literal."""
    parts = [value] if isinstance(value, str) else value["Fn::Join"][1]
    return "".join(piece if isinstance(piece, str) else reference for piece in parts)


def node_group(synthesised: Synthesised, kind: str | None) -> dict[str, Any]:
    """The group of nodes of a kind, or the one of the CPU nodes that stand always."""
    label = node_label(synthesised.experiment, kind) if kind else None
    (group,) = (
        resource["Properties"]
        for _, resource in synthesised.resources("AWS::EKS::Nodegroup")
        if resource["Properties"].get("Labels", {}).get(NODE_GROUP_LABEL) == label
    )
    return dict(group)


def outputs(synthesised: Synthesised, stack: str) -> dict[str, Any]:
    values = synthesised.template(stack)["Outputs"]
    return {name: output["Value"] for name, output in values.items()}


def statements(synthesised: Synthesised) -> Iterator[tuple[str, dict[str, Any]]]:
    """Service account and statement of every policy of the pods' roles."""
    for logical_id, resource in synthesised.template("serving")["Resources"].items():
        if resource["Type"] == "AWS::IAM::Policy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                yield logical_id.partition("Role")[0], statement


def listed(value: Any) -> list[Any]:
    """A policy has a single value or a list."""
    return value if isinstance(value, list) else [value]
