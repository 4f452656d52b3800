"""Whole manifests, as they are written to ``dist/``: what a change of code changes."""

from collections.abc import Iterable

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from experiment import load
from experiment.loader import parse
from tests.experiment.files import EXPERIMENTS, edited
from tests.stacks.test_snapshots import masked
from tests.synthesis import Manifest, Synthesised, render

CHARTS = (
    "namespace",
    "claims",
    "model-store",
    "preparation",
    "qwen-vllm",
    "qwen-sd-vllm",
    "llmperf",
    "quality",
)
OF_OTHERS = {
    "article-sweep": ("ConfigMap", "Job", "ServiceAccount", "NetworkPolicy"),
    "vanilla": ("ConfigMap", "Job", "ServiceAccount", "NetworkPolicy"),
    "eagle3-qwen3": ("Deployment", "Service"),
    "eagle3-nxdi": ("Job", "ResourceClaimTemplate"),
}
"""Kinds of objects that differ from the article's."""


class ManifestSnapshot(SingleFileSnapshotExtension):
    """One YAML file a chart."""

    file_extension = "k8s.yaml"
    _write_mode = WriteMode.TEXT


def test_every_chart_has_a_snapshot(synthesised: Synthesised) -> None:
    assert tuple(synthesised.manifests) == CHARTS


@pytest.mark.parametrize("chart", CHARTS)
def test_manifests(chart: str, synthesised: Synthesised, snapshot: SnapshotAssertion) -> None:
    assert text(synthesised.manifests[chart]) == snapshot(extension_class=ManifestSnapshot)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_manifests_of_others(name: str, snapshot: SnapshotAssertion) -> None:
    objects = render(load(EXPERIMENTS / f"{name}.yaml"))
    chosen = [o for o in objects if o["kind"] in OF_OTHERS[name] and not is_shared(o)]
    assert text(chosen) == snapshot(extension_class=ManifestSnapshot)


def test_manifests_with_a_key(snapshot: SnapshotAssertion) -> None:
    objects = render(parse(edited({"serving.api_key": True}), "mine.yaml"))
    chosen = [o for o in objects if o["kind"] == "Deployment"][1:]
    assert text(chosen) == snapshot(extension_class=ManifestSnapshot)


def is_shared(manifest: Manifest) -> bool:
    """Whether it is the ConfigMap of scripts or of the bucket, as the article has it."""
    return manifest["metadata"]["name"] in ("scripts", "model-store")


def text(manifests: Iterable[Manifest]) -> str:
    stream = StringIO()
    YAML().dump_all(manifests, stream)
    return masked(stream.getvalue())
