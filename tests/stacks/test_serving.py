"""What the serving stack applies, in which order, and the image that it builds."""

import json
import re
from pathlib import Path
from typing import Any

from stacks.serving import PRUNED
from tests.stacks.templates import resolved
from tests.synthesis import ACCOUNT, ROOT, Manifest, Synthesised


def applied(synthesised: Synthesised) -> dict[str, tuple[set[str], list[Manifest]]]:
    """What each resource needs of the others, and the objects that it applies."""
    resources = dict(synthesised.resources("Custom::AWSCDK-EKS-KubernetesResource"))
    assert all(resource["Properties"]["Overwrite"] is True for resource in resources.values())
    return {
        logical_id: (
            {*resource.get("DependsOn", [])} & {*resources},
            json.loads(resolved(resource["Properties"]["Manifest"], ACCOUNT)),
        )
        for logical_id, resource in resources.items()
    }


def test_applies_what_dist_holds_in_its_order(synthesised: Synthesised) -> None:
    """One resource after the other: each runs two functions, and an account may have ten."""
    resources, order = applied(synthesised), list[Manifest]()
    done: set[str] = set()
    while remaining := resources.keys() - done:
        (following,) = (name for name in remaining if resources[name][0] <= done)
        done.add(following)
        order += map(_without_prune_label, resources[following][1])
    charts = [*synthesised.manifests.values()]
    written = {_identity(o): (n, o) for n, chart in enumerate(charts) for o in chart}
    assert len(order) == len(written)
    assert [written[_identity(o)][1] for o in order] == order
    numbers = [written[_identity(o)][0] for o in order]
    assert numbers == sorted(numbers)


def test_what_kubectl_would_never_prune_has_a_resource_to_be_deleted_by(each: Synthesised) -> None:
    """So that a policy taken out of the charts does not stay in force without a word."""
    kinds = set()
    for logical_id, (_, objects) in applied(each).items():
        if not {manifest["kind"] for manifest in objects} <= PRUNED:
            ((kind, name),) = map(_identity, objects)
            kinds.add(kind)
            # A resource that kept its id under another object's name would only be updated.
            assert re.sub(r"\W", "", f"{kind}{name}") in logical_id
    assert kinds == {"NetworkPolicy", "ResourceClaimTemplate", "ServiceAccount"}


def test_the_image_is_built_from_the_benchmark_and_nothing_besides(
    synthesised: Synthesised,
) -> None:
    assets = json.loads((synthesised.directory / "article-serving.assets.json").read_text())
    (image,) = assets["dockerImages"].values()
    assert image["source"]["platform"] == "linux/amd64"
    (destination,) = image["destinations"].values()
    pod = synthesised.object("Pod", "qwen-llmperf")["spec"]["containers"][0]["image"]
    repository = destination["repositoryName"].replace("${AWS::AccountId}", ACCOUNT)
    assert pod.endswith(f"/{repository}:{destination['imageTag']}")
    files = _files(synthesised.directory / image["source"]["directory"])
    beside = {"requirements.lock", "llmperf-requirements.lock", "Dockerfile", ".dockerignore"}
    assert {str(file) for file in files if file.parts[0] != "src"} == beside
    sources = _files(ROOT / "packages" / "spectap" / "src")
    assert {file.relative_to("src") for file in files if file.parts[0] == "src"} == {
        file for file in sources if "__pycache__" not in file.parts
    }


def _files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def _identity(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _without_prune_label(manifest: Manifest) -> dict[str, Any]:
    """``manifest`` without the label by which the CDK finds objects that are gone."""
    labels = manifest["metadata"].pop("labels")
    if remaining := {k: v for k, v in labels.items() if not k.startswith("aws.cdk.eks/prune-")}:
        manifest["metadata"]["labels"] = remaining
    return manifest
