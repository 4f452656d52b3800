"""An artifact's key tells apart all that compiles differently, and nothing else."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiment.loader import parse
from experiment.runtimes import nxdi
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.variants import CompileInputs, artifact_key, variants
from tests.experiment.files import ABSENT, EAGLE, EAGLE3_HEAD, LLAMA, LLAMA_70B, edited

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""Kubernetes' syntax of a label value; S3 takes all of it in an object key."""

INPUTS = CompileInputs(
    target="Qwen/Qwen3-32B",
    target_revision="a" * 40,
    draft="Qwen/Qwen3-1.7B",
    draft_revision="b" * 40,
    mode="fused",
    num_speculative_tokens=7,
    tensor_parallel=32,
    logical_core_size=2,
    batch=4,
    length=1024,
    instance_type="trn2.48xlarge",
    image="registry.example/vllm:1",
    family="qwen3",
    compile_flags=("--tp-degree", "32"),
)

FIELDS = [field.name for field in dataclasses.fields(CompileInputs)]


def _replace(field: str, value: Any) -> CompileInputs:
    return dataclasses.replace(INPUTS, **{field: value})


def _other(value: Any) -> Any:
    if isinstance(value, tuple):
        return (*value, "x")
    return value + 1 if isinstance(value, int) else value + "x"


@pytest.mark.parametrize("field", FIELDS)
def test_every_input_changes_the_key(field: str) -> None:
    changed = _replace(field, _other(getattr(INPUTS, field)))
    assert artifact_key(changed) != artifact_key(INPUTS)


def test_what_prepares_a_draft_is_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(changes: dict[str, Any]) -> list[str]:
        return [one.artifact for one in variants(parse(edited(changes), "mine.yaml"))]

    base, eagle = keys(EAGLE)
    fused = keys({})
    newer = {"prepare_draft.py": PREPARATIONS["prepare_draft.py"] + 1}
    monkeypatch.setattr(nxdi, "PREPARATIONS", newer)
    assert keys(EAGLE)[0] == base
    assert keys(EAGLE)[1] != eagle
    assert keys({}) == fused


@pytest.mark.parametrize("field", ["draft", "draft_revision", "mode", "num_speculative_tokens"])
def test_absent_is_an_input_of_its_own(field: str) -> None:
    keys = {artifact_key(_replace(field, value)) for value in (None, "None", "null", "", 0)}
    assert len(keys) == 5


def test_keys_stay_what_they_were() -> None:
    """If this fails, every artifact compiled so far is lost to its experiment."""
    assert artifact_key(INPUTS) == "qwen3-32b-fused-7-fb86ccb4825ad59c"


_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"


@given(
    target=st.from_regex(f"{_WORD}/{_WORD}", fullmatch=True),
    mode=st.sampled_from([None, "fused", "eagle3", "vanilla"]),
    window=st.integers(1, 15),
)
def test_a_key_can_be_a_label_value_and_an_object_key(
    target: str, mode: str | None, window: int
) -> None:
    key = artifact_key(
        dataclasses.replace(INPUTS, target=target, mode=mode, num_speculative_tokens=window)
    )
    assert LABEL_VALUE.fullmatch(key), key
    assert len(key) <= 63


def _keys(changes: dict[str, Any]) -> tuple[str, str]:
    baseline, speculative = variants(parse(edited(changes), "mine.yaml"))
    return baseline.artifact, speculative.artifact


PLUGIN = {"runtime": "vllm-0.16-nxdi"}


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        pytest.param({}, {"models.target.id": "Qwen/Qwen3-14B"}, id="target"),
        pytest.param({}, {"models.target.revision": "0" * 40}, id="target revision"),
        pytest.param({}, {"serving.devices": 4, "serving.tensor_parallel": 16}, id="TP"),
        pytest.param({}, {"serving.devices": 4, "serving.logical_core_size": 1}, id="LNC"),
        pytest.param({}, {"serving.batch": 8}, id="batch"),
        pytest.param({}, {"serving.length": 2048}, id="length"),
        pytest.param(EAGLE, PLUGIN, id="runtime"),
    ],
)
def test_changes_that_both_variants_are_compiled_again_for(
    before: dict[str, Any], changes: dict[str, Any]
) -> None:
    old, new = _keys(before), _keys(before | changes)
    assert old[0] != new[0]
    assert old[1] != new[1]


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        pytest.param({}, {"speculation.num_speculative_tokens": 6}, id="window"),
        pytest.param({}, {"models.draft.id": "Qwen/Qwen3-0.6B"}, id="draft"),
        pytest.param({}, {"models.draft.revision": "0" * 40}, id="draft revision"),
        pytest.param({"models.target": LLAMA_70B, "models.draft": LLAMA}, EAGLE, id="mode"),
        pytest.param(
            PLUGIN | EAGLE,
            {"speculation.mode": "eagle3", "models.draft": EAGLE3_HEAD},
            id="mode of the plugin",
        ),
    ],
)
def test_changes_that_only_the_speculative_variant_is_compiled_again_for(
    before: dict[str, Any], changes: dict[str, Any]
) -> None:
    old, new = _keys(before), _keys(before | changes)
    assert old[0] == new[0]
    assert old[1] != new[1]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"name": "other"}, id="name"),
        pytest.param(
            {
                "aws.region": "us-west-2",
                "aws.availability_zones": ["us-west-2a", "us-west-2b"],
                "capacity.availability_zone": "us-west-2a",
            },
            id="region",
        ),
        pytest.param({"benchmark.rounds": 9}, id="rounds"),
        pytest.param({"benchmark.test_cases.9": ABSENT}, id="test cases"),
    ],
)
def test_changes_that_nothing_is_compiled_again_for(changes: dict[str, Any]) -> None:
    assert _keys(changes) == _keys({})
