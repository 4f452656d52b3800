"""What a deploy would refuse by its size is found in the template."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from stacks.limits import ANNOTATIONS, EVENT, TEMPLATE, exceeded


def template(*objects: dict[str, Any]) -> bytes:
    begin, end = json.dumps(objects, ensure_ascii=False).split("ACCOUNT", 1)
    manifest = {"Fn::Join": ["", [begin, {"Ref": "AWS::AccountId"}, end]]}
    resource = {
        "Type": "Custom::AWSCDK-EKS-KubernetesResource",
        "Properties": {"Manifest": manifest},
    }
    return json.dumps({"Resources": {"Objects": resource}}).encode()


def config_map(name: str, text: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {"of": "ACCOUNT"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": text}}


def test_what_fits_is_passed() -> None:
    assert [*exceeded("mine-serving", template(config_map("a", "<" * 40_000)))] == []


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (lambda: [config_map("a", "<" * 45_000)], "ConfigMap a has "),
        (
            lambda: [config_map(f"m-{n}", "x" * 200_000) for n in range(3)],
            "ConfigMap m-0, old and new, has ",
        ),
        (lambda: [config_map(f"m-{n}", "x" * 200_000) for n in range(6)], "its template has "),
    ],
)
def test_what_a_deploy_refuses_is_a_line_with_the_excess(
    objects: Callable[[], list[dict[str, Any]]], words: str
) -> None:
    first = next(iter(exceeded("mine-serving", template(*objects()))))
    assert first.startswith(f"mine-serving: {words}")
    size, over, limit = (
        int(n.replace(",", "")) for n in first.replace(":", "").split() if n[:1].isdigit()
    )
    assert size - over == limit
    assert limit in (TEMPLATE, EVENT, ANNOTATIONS)
    assert first.endswith("make two experiments of it")
