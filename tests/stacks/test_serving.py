from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stacks.serving import PRUNED
from tests.matrix import WHOLE_NODES
from tests.synthesis import ACCOUNT, ROOT, Synthesised

APPLIED = "Custom::AWSCDK-EKS-KubernetesResource"


def test_applies_every_chart_in_order(synthesised: Synthesised) -> None:
    manifests = dict(synthesised.resources(APPLIED))
    first = [m for m in manifests.values() if not set(_needs(m)) & set(manifests)]
    assert [_kinds(m) for m in first] == [["Namespace"]]
    # One after the other, in the order of the charts.
    order, applied = [], set(_needs(first[0]))
    while following := [
        (i, m) for i, m in manifests.items() if i not in applied and applied.issuperset(_needs(m))
    ]:
        ((logical_id, manifest),) = following
        order.append(_first(manifest))
        applied.add(logical_id)
    chart_of = {
        _identity(manifest): number
        for number, chart in enumerate(synthesised.manifests.values())
        for manifest in chart
    }
    assert len(order) == len(manifests)
    assert [chart_of[identity] for identity in order] == sorted(chart_of[i] for i in order)
    assert all(m["Properties"]["Overwrite"] is True for m in manifests.values())


def test_applies_what_dist_holds(synthesised: Synthesised) -> None:
    applied = [
        _without_prune_label(manifest)
        for _, resource in synthesised.resources(APPLIED)
        for manifest in _objects(resource)
    ]
    written = [manifest for chart in synthesised.manifests.values() for manifest in chart]
    assert sorted(applied, key=_identity) == sorted(written, key=_identity)


def test_what_kubectl_would_never_prune_has_a_resource_to_be_deleted_by(each: Synthesised) -> None:
    """So that a policy taken out of the charts does not stay in force without a word."""
    alone = {}
    for logical_id, resource in each.resources(APPLIED):
        kinds = set(_kinds(resource))
        if not kinds <= PRUNED:
            assert len(_kinds(resource)) == 1
            alone[_first(resource)] = logical_id
    assert {kind for kind, _ in alone} == {
        "NetworkPolicy",
        "ResourceClaimTemplate",
        "ServiceAccount",
    }
    # A resource that kept its id under another object's name would only be updated.
    for (kind, name), logical_id in alone.items():
        assert re.sub(r"\W", "", f"{kind}{name}") in logical_id


def test_a_ready_image_is_used_as_it_is(of_matrix: Callable[[str], Synthesised]) -> None:
    image = "registry.example.com/benchmark:1"
    result = of_matrix(WHOLE_NODES)
    assert result.object("Pod", "qwen-llmperf")["spec"]["containers"][0]["image"] == image
    assets = json.loads((result.directory / "whole-nodes-serving.assets.json").read_text())
    assert not assets.get("dockerImages")


def test_the_image_is_built_from_the_benchmark(synthesised: Synthesised) -> None:
    assets = json.loads((synthesised.directory / "article-serving.assets.json").read_text())
    (image,) = assets["dockerImages"].values()
    assert image["source"]["platform"] == "linux/amd64"
    (destination,) = image["destinations"].values()
    pod = synthesised.object("Pod", "qwen-llmperf")["spec"]["containers"][0]["image"]
    repository = destination["repositoryName"].replace("${AWS::AccountId}", ACCOUNT)
    assert pod.endswith(f"/{repository}:{destination['imageTag']}")


def test_the_image_gets_the_benchmark_and_nothing_besides(synthesised: Synthesised) -> None:
    assets = json.loads((synthesised.directory / "article-serving.assets.json").read_text())
    (image,) = assets["dockerImages"].values()
    context = synthesised.directory / image["source"]["directory"]
    files = {path for path in _files(ROOT / "spectap") if "__pycache__" not in path.parts}
    assert _files(context) == files
    assert Path("Dockerfile") in files


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def _needs(resource: dict[str, Any]) -> list[str]:
    needs: list[str] = resource.get("DependsOn", [])
    return needs


def _objects(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """What a resource applies."""
    objects: list[dict[str, Any]] = json.loads(_resolved(resource["Properties"]["Manifest"]))
    return objects


def _kinds(resource: dict[str, Any]) -> list[str]:
    return [manifest["kind"] for manifest in _objects(resource)]


def _first(resource: dict[str, Any]) -> tuple[str, str]:
    return _identity(_objects(resource)[0])


def _identity(manifest: dict[str, Any]) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _resolved(value: Any) -> str:
    """The text of a Fn::Join over literals and the account."""
    if isinstance(value, str):
        return value
    _, parts = value["Fn::Join"]
    return "".join(piece if isinstance(piece, str) else ACCOUNT for piece in parts)


def _without_prune_label(manifest: dict[str, Any]) -> dict[str, Any]:
    """``manifest`` without the label by which the CDK finds objects that are gone."""
    labels = manifest["metadata"]["labels"]
    remaining = {k: v for k, v in labels.items() if not k.startswith("aws.cdk.eks/prune-")}
    del manifest["metadata"]["labels"]
    if remaining:
        manifest["metadata"]["labels"] = remaining
    return manifest
