"""What the services are told, held against what their artifacts were compiled with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from charts.offline import generate_command
from charts.server import serve_command
from experiment.variants import Variant, variants
from tests.charts.loader import OnDeviceSampling, artifact, faults, job_faults, overrides
from tests.charts.test_vllm import compared
from tests.matrix import JOBS, MEDUSA
from tests.synthesis import Synthesised

SCALARS = (bool, int, str)


def test_a_service_is_the_one_that_was_compiled(served_by_nxdi: Synthesised) -> None:
    for variant in variants(served_by_nxdi.experiment):
        told = overrides(serve_command(variant))
        assert faults(artifact(variant.compile_flags), told) == [], variant.service
        assert all(isinstance(value, SCALARS) for value in told.values())


def test_an_artifact_holds_what_a_fair_comparison_needs(served_by_nxdi: Synthesised) -> None:
    for variant in variants(served_by_nxdi.experiment):
        compiled = artifact(variant.compile_flags)
        assert compiled["on_device_sampling_config"] == OnDeviceSampling(top_k=1)
        assert compiled["save_sharded_checkpoint"] is True
        # The article ran without, on both sides.
        assert compiled["sequence_parallel_enabled"] is False
    for pair in compared(served_by_nxdi):
        base, compiled = (artifact(variant.compile_flags) for variant in pair)
        differing = {key for key in base if base[key] != compiled[key]}
        assert {"speculation_length", "enable_fused_speculation"} <= differing
        assert all("specul" in key or "eagle" in key for key in differing)


def test_the_override_says_which_mode_it_is(served_by_nxdi: Synthesised) -> None:
    for base, variant in compared(served_by_nxdi):
        assert overrides(serve_command(base)) == {}
        told = overrides(serve_command(variant))
        assert told
        assert set(told.values()) == {True}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_can_generate_with_what_was_compiled(
    name: str, of_matrix: Callable[[str], Synthesised]
) -> None:
    found = variants(of_matrix(name).experiment)
    for variant in found:
        compiled = artifact(variant.compile_flags)
        assert job_faults(compiled, variant.window) == []
        # It asks its command line, not the artifact, what it is about to run.
        assert artifact(generate_command(variant)) == compiled
    base, *others = (artifact(variant.compile_flags) for variant in found)
    for compiled in others:
        differing = {key for key in base if base[key] != compiled[key]}
        sampling = {"on_device_sampling_config"} if compiled["is_medusa"] else set()
        assert all("specul" in key or "medusa" in key for key in differing - sampling)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"batch_size": 4}, "one sequence"),
        ({"medusa_speculation_length": 63}, "the tree and its root"),
        ({"num_medusa_heads": 3}, "the tree and its root"),
        ({"enable_bucketing": True}, "has neither"),
        ({"on_device_sampling_config": None}, "asserts sampling"),
        ({"on_device_sampling_config": OnDeviceSampling(top_k=1, global_topk=8)}, "ranks"),
    ],
)
def test_a_job_that_could_not_generate_is_found_out(
    changed: dict[str, Any], fault: str, of_matrix: Callable[[str], Synthesised]
) -> None:
    _, medusa = variants(of_matrix(MEDUSA).experiment)
    found = job_faults({**artifact(medusa.compile_flags), **changed}, medusa.window)
    assert fault in found[0]


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        # Set over NxDI's object, of which the model runner then asks .global_topk.
        (
            {"on_device_sampling_config": {"top_k": 1, "do_sample": False}},
            "on_device_sampling_config: dict, not OnDeviceSampling",
        ),
        (
            {"sequence_parallel_enabled": True},
            "sequence_parallel_enabled: True, compiled with False",
        ),
        ({"logical_nc_config": "2"}, "logical_nc_config: str, not int"),
        ({"enable_fused_speculatoin": True}, "enable_fused_speculatoin: the artifact has no"),
    ],
)
def test_an_override_that_would_end_a_service_is_found_out(
    override: dict[str, object], fault: str, synthesised: Synthesised
) -> None:
    _, speculative = variants(synthesised.experiment)
    (found,) = faults(artifact(speculative.compile_flags), override)
    assert found.startswith(fault)


def test_a_window_of_another_artifact_is_found_out(synthesised: Synthesised) -> None:
    """NxDI would serve it without a word; here it is a fault as soon as a service names it."""
    _, speculative = variants(synthesised.experiment)
    told = {"speculation_length": 6}
    assert faults(artifact(_with_window(speculative, 7).compile_flags), told) != []
    assert faults(artifact(_with_window(speculative, 6).compile_flags), told) == []


def _with_window(variant: Variant, window: int) -> Variant:
    assert variant.speculation is not None
    changed = variant.speculation.model_copy(update={"num_speculative_tokens": window})
    return dataclasses.replace(variant, speculation=changed)
