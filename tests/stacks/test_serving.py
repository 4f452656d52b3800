from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.matrix import WHOLE_NODES
from tests.synthesis import ACCOUNT, ROOT, Synthesised


def test_applies_every_chart_in_order(synthesised: Synthesised) -> None:
    manifests = dict(synthesised.resources("Custom::AWSCDK-EKS-KubernetesResource"))
    assert len(manifests) == len(synthesised.manifests)
    first = [m for m in manifests.values() if not set(_needs(m)) & set(manifests)]
    assert len(first) == 1
    assert all(m["Properties"]["Overwrite"] is True for m in manifests.values())


def test_applies_what_dist_holds(synthesised: Synthesised) -> None:
    applied = [
        _without_prune_label(manifest)
        for _, resource in synthesised.resources("Custom::AWSCDK-EKS-KubernetesResource")
        for manifest in json.loads(_resolved(resource["Properties"]["Manifest"]))
    ]
    written = [manifest for chart in synthesised.manifests.values() for manifest in chart]
    assert applied == written


def test_identities_come_before_the_pods_that_need_them(synthesised: Synthesised) -> None:
    identities = dict(synthesised.resources("AWS::EKS::PodIdentityAssociation"))
    accounts = {i["Properties"]["ServiceAccount"] for i in identities.values()}
    assert accounts == {o["metadata"]["name"] for o in synthesised.objects("ServiceAccount")}
    manifests = dict(synthesised.resources("Custom::AWSCDK-EKS-KubernetesResource"))
    (first,) = (m for m in manifests.values() if not set(_needs(m)) & set(manifests))
    assert set(identities) <= set(_needs(first))


def test_service_accounts_are_not_annotated_for_irsa(synthesised: Synthesised) -> None:
    for account in synthesised.objects("ServiceAccount"):
        assert "annotations" not in account["metadata"]


def test_waits_for_nothing_that_takes_hours(synthesised: Synthesised) -> None:
    types = {r["Type"] for r in synthesised.template("serving")["Resources"].values()}
    assert types == {"AWS::EKS::PodIdentityAssociation", "Custom::AWSCDK-EKS-KubernetesResource"}


def test_outputs_print_the_commands_a_user_needs_next(synthesised: Synthesised) -> None:
    outputs = synthesised.template("serving")["Outputs"]
    commands = [
        outputs[name]["Value"]
        for name in sorted(name for name in outputs if name.startswith("Command"))
    ]
    assert len(commands) == 6
    text = json.dumps(commands)
    for needed in ("update-kubeconfig", "qwen-llmperf", "component=prepare", "qwen-lmeval"):
        assert needed in text


def test_a_ready_image_is_used_as_it_is(of_matrix: Callable[[str], Synthesised]) -> None:
    image = "registry.example.com/benchmark:1"
    result = of_matrix(WHOLE_NODES)
    assert result.object("Pod", "qwen-llmperf")["spec"]["containers"][0]["image"] == image
    assets = json.loads((result.directory / "article-serving.assets.json").read_text())
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
    own = {path for path in _files(ROOT / "benchmark") if "__pycache__" not in path.parts}
    assert _files(context) == own
    assert Path("Dockerfile") in own


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def _needs(resource: dict[str, Any]) -> list[str]:
    needs: list[str] = resource.get("DependsOn", [])
    return needs


def _resolved(value: Any) -> str:
    """The text of a Fn::Join over literals and the account."""
    if isinstance(value, str):
        return value
    _, parts = value["Fn::Join"]
    return "".join(part if isinstance(part, str) else ACCOUNT for part in parts)


def _without_prune_label(manifest: dict[str, Any]) -> dict[str, Any]:
    """``manifest`` without the label by which the CDK finds objects that are gone."""
    labels = manifest["metadata"]["labels"]
    kept = {k: v for k, v in labels.items() if not k.startswith("aws.cdk.eks/prune-")}
    del manifest["metadata"]["labels"]
    if kept:
        manifest["metadata"]["labels"] = kept
    return manifest
