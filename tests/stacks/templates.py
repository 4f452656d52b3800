"""What stands in the templates of variants that are measured apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.synthesis import Synthesised


def widgets(synthesised: Synthesised) -> Iterator[dict[str, Any]]:
    """Those of the dashboards that compare."""
    for _, dashboard in synthesised.resources("AWS::CloudWatch::Dashboard"):
        if "comparison" in dashboard["Properties"]["DashboardName"]:
            body = dashboard["Properties"]["DashboardBody"]
            parts = [body] if isinstance(body, str) else body["Fn::Join"][1]
            text = "".join(part if isinstance(part, str) else "us-east-2" for part in parts)
            yield from json.loads(text)["widgets"]


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
