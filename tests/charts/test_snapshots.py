"""Whole manifests, as they are written to ``dist/``; of a script only its digest."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO
from ruamel.yaml.scalarstring import LiteralScalarString
from syrupy.assertion import SnapshotAssertion

from charts.benchmark import prompt_assets
from experiment import load
from experiment.loader import parse
from tests.experiment.files import EXPERIMENTS, edited, swept
from tests.matrix import LADDER, MATRIX
from tests.snapshots import TemplateSnapshot, TextSnapshot, digest, masked
from tests.synthesis import Manifest, Synthesised, by_name, render

CHARTS = (
    "namespace",
    "claims",
    "model-store",
    "preparation",
    "qwen-vllm",
    "qwen-sd-vllm",
    "llmperf",
)
OF_OTHERS = {
    "sweep": ("ConfigMap", "Job", "ServiceAccount", "NetworkPolicy"),
    "vanilla": ("ConfigMap", "Job", "ServiceAccount", "NetworkPolicy"),
    "eagle3-qwen3": ("Deployment", "Service"),
    "eagle3-nxdi": ("Job", "ResourceClaimTemplate"),
}
"""Kinds of objects that differ from the article's."""


class ManifestSnapshot(TextSnapshot):
    file_extension = "k8s.yaml"


def test_every_chart_has_a_snapshot(synthesised: Synthesised) -> None:
    assert tuple(synthesised.manifests) == CHARTS


@pytest.mark.parametrize("chart", CHARTS)
def test_manifests(chart: str, synthesised: Synthesised, snapshot: SnapshotAssertion) -> None:
    assert text(synthesised.manifests[chart]) == snapshot(extension_class=ManifestSnapshot)


def test_lines_of_prompts(snapshot: SnapshotAssertion) -> None:
    """What the manifests name by its hash, which is masked in their snapshots."""
    (lines,) = prompt_assets(load(EXPERIMENTS / "article.yaml")).values()
    assert json.loads(lines) == snapshot(extension_class=TemplateSnapshot)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_manifests_of_others(name: str, snapshot: SnapshotAssertion) -> None:
    sweep = edited(swept(windows=[7]))
    experiment = parse(sweep, name) if name == "sweep" else load(EXPERIMENTS / f"{name}.yaml")
    manifests = render(experiment)
    chosen = [o for o in manifests if o["kind"] in OF_OTHERS[name] and not is_shared(o)]
    assert text(chosen) == snapshot(extension_class=ManifestSnapshot)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"serving.api_key": True}, {"Deployment/qwen-sd-vllm"}),
        # What may launch the services again.
        (
            {"benchmark.rounds": 6, "benchmark.launches": 3},
            {"Role/qwen-llmperf", "RoleBinding/qwen-llmperf", "Pod/qwen-llmperf"},
        ),
        # Load points, objectives, and prompt sets.
        (
            MATRIX[LADDER]
            | {
                "benchmark.rounds": {"at_least": 4, "at_most": 30},
                "benchmark.spread_minutes": 90,
            },
            {"ConfigMap/qwen-llmperf"},
        ),
    ],
    ids=["key", "launches", "ladder"],
)
def test_manifests_with(
    changes: dict[str, Any], names: set[str], snapshot: SnapshotAssertion
) -> None:
    objects = by_name(render(parse(edited(changes), "mine.yaml")))
    chosen = [o for (kind, name), o in objects.items() if f"{kind}/{name}" in names]
    assert len(chosen) == len(names)
    assert text(chosen) == snapshot(extension_class=ManifestSnapshot)


def is_shared(manifest: Manifest) -> bool:
    """Whether it is the ConfigMap of scripts or of the bucket, as the article has it."""
    return manifest["metadata"]["name"] in ("scripts", "model-store")


def text(manifests: Iterable[Manifest]) -> str:
    stream = StringIO()
    YAML().dump_all(map(readable, manifests), stream)
    return masked(stream.getvalue())


def readable(manifest: Manifest) -> Manifest:
    """A ConfigMap with each line of a text on a line, and a script's digest."""
    if manifest["kind"] != "ConfigMap":
        return manifest
    shown = digest if manifest["metadata"]["name"] == "scripts" else LiteralScalarString
    data = manifest["data"].items()
    return manifest | {"data": {n: shown(text) if "\n" in text else text for n, text in data}}
