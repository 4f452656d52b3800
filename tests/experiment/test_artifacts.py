"""An artifact's key tells apart all that compiles differently, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from experiment.loader import parse
from experiment.runtimes import nxdi
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.variants import artifact_key, variants
from tests.experiment.files import ABSENT, EAGLE, EAGLE3_HEAD, LLAMA, LLAMA_70B, edited

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""Kubernetes' syntax of a label value; S3 takes all of it in an object key."""

INPUTS = {
    "target": "Qwen/Qwen3-32B",
    "target_revision": "a" * 40,
    "draft": "Qwen/Qwen3-1.7B",
    "draft_revision": "b" * 40,
    "mode": "fused",
    "num_speculative_tokens": 7,
    "tensor_parallel": 32,
    "logical_core_size": 2,
    "batch": 4,
    "length": 1024,
    "instance_type": "trn2.48xlarge",
    "image": "registry.example/vllm:1",
    "family": "qwen3",
    "compile_flags": ("--tp-degree", "32"),
}


def test_what_prepares_a_draft_is_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    (base, eagle), fused = _keys(EAGLE), _keys({})
    newer = {"prepare_draft.py": PREPARATIONS["prepare_draft.py"] + 1}
    monkeypatch.setattr(nxdi, "PREPARATIONS", newer)
    assert _keys(EAGLE)[0] == base
    assert _keys(EAGLE)[1] != eagle
    assert _keys({}) == fused


def test_keys_stay_what_they_were() -> None:
    """If this fails, every artifact compiled so far is lost to its experiment."""
    assert artifact_key(INPUTS) == "qwen3-32b-fused-7-fb86ccb4825ad59c"


@pytest.mark.parametrize("target", ["a/B", f"o/{'x' * 23}._-{'y' * 72}", "01-ai/1.-"])
def test_a_key_can_be_a_label_value_and_an_object_key(target: str) -> None:
    for mode in (None, "eagle3"):
        key = artifact_key(INPUTS | {"target": target, "mode": mode})
        assert LABEL_VALUE.fullmatch(key), key


def _keys(changes: dict[str, Any]) -> tuple[str, str]:
    baseline, speculative = variants(parse(edited(changes), "mine.yaml"))
    return baseline.artifact, speculative.artifact


PLUGIN = {"runtime": "vllm-0.16-nxdi"}
DRAFTED = {"models.target": LLAMA_70B, "models.draft": LLAMA}
EAGLE3 = {"speculation.mode": "eagle3", "models.draft": EAGLE3_HEAD}
US_WEST = {
    "aws.region": "us-west-2",
    "aws.availability_zones": ["us-west-2a", "us-west-2b"],
    "capacity.availability_zone": "us-west-2a",
}


@pytest.mark.parametrize(
    ("before", "changes", "compiled_again"),
    [
        ({}, {"models.target.id": "Qwen/Qwen3-14B"}, (True, True)),
        ({}, {"models.target.revision": "0" * 40}, (True, True)),
        ({}, {"serving.devices": 4, "serving.logical_core_size": 1}, (True, True)),
        ({}, {"serving.batch": 8}, (True, True)),
        ({}, {"serving.length": 2048}, (True, True)),
        (EAGLE, PLUGIN, (True, True)),
        ({}, {"speculation.num_speculative_tokens": 6}, (False, True)),
        ({}, {"models.draft.id": "Qwen/Qwen3-0.6B"}, (False, True)),
        ({}, {"models.draft.revision": "0" * 40}, (False, True)),
        (DRAFTED, EAGLE, (False, True)),
        (PLUGIN | EAGLE, EAGLE3, (False, True)),
        ({}, {"name": "other"} | US_WEST, (False, False)),
        ({}, {"benchmark.rounds": 9, "benchmark.test_cases.9": ABSENT}, (False, False)),
    ],
)
def test_what_is_compiled_again_after_a_change(
    before: dict[str, Any], changes: dict[str, Any], compiled_again: tuple[bool, bool]
) -> None:
    old, new = _keys(before), _keys(before | changes)
    assert (old[0] != new[0], old[1] != new[1]) == compiled_again
