"""Golden endpoints are started with what their variant and its runtime decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiment.loader import parse
from rehearsal.golden.endpoints import golden_servers
from tests.experiment.files import EAGLE, EAGLE3_HEAD, edited

EAGLE3: dict[str, Any] = {"models.draft": EAGLE3_HEAD, "speculation.mode": "eagle3"}


@pytest.mark.parametrize(
    ("runtime", "head", "face"),
    [
        ("vllm-0.9.1-nxdi", {}, {"--engine=v0", "--kept=1"}),
        ("vllm-neuron-1.x", EAGLE3, {"--engine=v1", "--kept=0", "--counts-drafts"}),
    ],
)
def test_they_have_the_runtime_s_face(
    runtime: str, head: dict[str, Any], face: set[str], tmp_path: Path
) -> None:
    experiment = parse(edited(EAGLE | {"runtime": runtime} | head), "mine.yaml")
    servers = golden_servers(experiment, 10, {"A": "1"}, tmp_path)
    server = servers["SD"]
    assert {f"--model={experiment.models.target.id}", "--speed=10", *face} <= {*server.command}
    assert ("--counts-drafts" in server.command) == ("--counts-drafts" in face)
    assert server.environment == {"A": "1"}
    assert f"--port={server.url.rpartition(':')[2].removesuffix('/v1')}" in server.command
    assert json.loads((tmp_path / "acceptance-SD.json").read_bytes())
