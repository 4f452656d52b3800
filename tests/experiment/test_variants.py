"""The variants of an experiment, listed or swept, and the artifacts they are served from."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from experiment import Experiment
from experiment.known_models import Model
from experiment.loader import parse
from experiment.runtimes import Mode, nxdi
from experiment.runtimes.inference_demo import PREPARATIONS
from experiment.speculation import Sweep
from experiment.variants import Variant, artifact_key, variants
from spectap import names
from tests.experiment.files import (
    ABSENT,
    EAGLE,
    EAGLE3_HEAD,
    LLAMA,
    LLAMA_70B,
    SMALL_DRAFT,
    edited,
    swept,
)
from tests.snapshots import TextSnapshot

LARGE_DRAFT: dict[str, Any] = {
    "id": "Qwen/Qwen3-1.7B",
    "revision": "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
}


def of(changes: dict[str, Any]) -> tuple[Variant, ...]:
    return variants(parse(edited(changes), "mine.yaml"))


def listed(*names: str, **changes: Any) -> dict[str, Any]:
    """The article's speculation by each of these names, the last with ``changes``."""
    items = [{"name": name, "mode": "fused", "num_speculative_tokens": 7} for name in names]
    return {
        "speculation": [*items[:-1], items[-1] | changes],
        "serving.devices": 4,
        "serving.tensor_parallel": 16,
    }


BASELINE = of({})[0]


@pytest.mark.parametrize(
    ("target", "prefix"), [("meta-llama/Llama-3.3-70B-Instruct", "llama"), ("01-ai/6B", "model")]
)
def test_names_follow_the_target(article: Experiment, target: str, prefix: str) -> None:
    renamed = article.models.target.model_copy(update={"id": target})
    models = article.models.model_copy(update={"target": renamed})
    served = variants(article.model_copy(update={"models": models}))
    assert [v.service for v in served] == [f"{prefix}-vllm", f"{prefix}-sd-vllm"]
    assert names.namespace(target) == f"{prefix.capitalize()}/LLMPerf"


EXPERIMENTS: dict[str, dict[str, Any]] = {
    "listed, the batch of serving first": listed("SD", "wide", batch=8),
    "two drafts by two windows": (
        swept(drafts=[SMALL_DRAFT, LARGE_DRAFT], windows=[3, 7]) | {"models.draft": ABSENT}
    ),
    "another batch": swept(windows=[3], batches=[8]),
    "two drafts of one name, which are numbered": swept(
        windows=[7], drafts=[SMALL_DRAFT, SMALL_DRAFT | {"revision": "1" * 40}]
    ),
}


def test_an_experiment_has_these_variants(snapshot: SnapshotAssertion) -> None:
    lines = list[str]()
    for name, changes in EXPERIMENTS.items():
        compared = of(changes)
        assert len({v.artifact for v in compared}) == len(compared)
        lines.append(name)
        for v in compared:
            over = f"window {v.window} over {v.baseline}" if v.baseline else "plain"
            draft = f", draft {v.draft.id}" if v.draft else ""
            lines.append(f"  {v.name}: batch {v.batch}, {over}{draft}")
    assert "\n".join([*lines, ""]) == snapshot(extension_class=TextSnapshot)


def test_services_are_named_after_their_variants_and_take_the_same_requests() -> None:
    served = of(listed("SD", "K3", batch=8, num_speculative_tokens=12))
    assert [v.service for v in served] == [
        *("qwen-vllm", "qwen-sd-vllm", "qwen-base-batch-8-vllm", "qwen-k3-vllm")
    ]
    assert served[0].experiment.served_length == served[0].experiment.serving.length - 12


def test_what_is_decoded_alike_has_one_artifact_however_it_is_named() -> None:
    """So a swept variant can be served from the artifact that the sweep compiled."""
    artifacts = [v.artifact for v in of({})]
    for changes in ({"speculation.name": "fused-7"}, swept(windows=[7])):
        assert [v.artifact for v in of(changes)] == artifacts


models = st.builds(
    lambda owner, name, revision: Model(id=f"{owner}/{name}", revision=revision * 40),
    owner=st.sampled_from(["Qwen", "qwen", "me"]),
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", fullmatch=True)
    | st.sampled_from(["Qwen3-1.7B", "Qwen3-1_7B", "Base", "base-batch"]),
    revision=st.sampled_from("0123456789abcdef"),
)


@settings(max_examples=40)
@given(
    drafts=st.none() | st.lists(models, min_size=1, max_size=4, unique=True),
    windows=st.lists(st.integers(1, 15), min_size=1, max_size=2, unique=True),
    batches=st.none() | st.lists(st.integers(1, 256), min_size=1, max_size=2, unique=True),
)
def test_names_of_a_sweep_fit_and_are_distinct_whatever_the_case(
    drafts: list[Model] | None, windows: list[int], batches: list[int] | None
) -> None:
    sweep = Sweep(
        mode=Mode.FUSED,
        drafts=tuple(drafts) if drafts else None,
        windows=tuple(windows),
        batches=tuple(batches) if batches else None,
        at_most_usd=1,
    )
    names = [speculation.name.lower() for speculation, _ in sweep.with_paths()]
    assert len(set(names)) == len(drafts or "1") * len(windows) * len(batches or "1")
    for name in names:
        assert not re.match(r"base(-batch-\d+)?$", name)
        # A Service's name is a DNS label.
        service = replace(BASELINE, name=name).service
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", service)


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


def test_a_key_can_be_a_label_value_and_an_object_key() -> None:
    for target in ("a/B", f"o/{'x' * 23}._-{'y' * 72}", "01-ai/1.-"):
        key = artifact_key(INPUTS | {"target": target, "mode": "eagle3"})
        assert LABEL_VALUE.fullmatch(key), key


def _keys(changes: dict[str, Any]) -> tuple[str, str]:
    baseline, speculative = of(changes)
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
