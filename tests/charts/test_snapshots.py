"""Whole manifests, as they are written to ``dist/``."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.stacks.test_snapshots import masked
from tests.synthesis import Synthesised

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


class ManifestSnapshot(SingleFileSnapshotExtension):
    """One YAML file a chart."""

    file_extension = "k8s.yaml"
    _write_mode = WriteMode.TEXT


def test_every_chart_has_a_snapshot(synthesised: Synthesised) -> None:
    assert tuple(synthesised.manifests) == CHARTS


@pytest.mark.parametrize("chart", CHARTS)
def test_manifests(chart: str, synthesised: Synthesised, snapshot: SnapshotAssertion) -> None:
    stream = StringIO()
    YAML().dump_all(synthesised.manifests[chart], stream)
    assert masked(stream.getvalue()) == snapshot(extension_class=ManifestSnapshot)
