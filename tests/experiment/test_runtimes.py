"""Each runtime's flags are spelled as the documentation of that image generation spells them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiment.known_models import Family, ModelKind
from experiment.runtimes import RUNTIMES, Engine, Mode, runtimes_serving

FORK, PLUGIN = "vllm-0.9.1-nxdi", "vllm-0.16-nxdi"
SERVED = [(runtime, mode) for runtime in RUNTIMES for mode in RUNTIMES[runtime].modes]
DRAFT = "/models/draft"


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        (Mode.VANILLA, ()),
        (Mode.FUSED, (FORK,)),
        (Mode.EAGLE, (FORK, PLUGIN)),
        (Mode.EAGLE3, (PLUGIN,)),
        (Mode.MEDUSA, ()),
        (Mode.DFLASH, ()),
    ],
)
def test_who_serves_a_mode(mode: Mode, names: tuple[str, ...]) -> None:
    assert runtimes_serving(mode) == names


def test_runtimes_are_catalogued_by_their_own_name() -> None:
    assert [runtime.name for runtime in RUNTIMES.values()] == [FORK, PLUGIN] == list(RUNTIMES)


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        (FORK, "0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04"),
        (PLUGIN, "0.16.0-neuronx-py312-sdk2.31.1-ubuntu24.04"),
    ],
)
def test_images_are_pinned(name: str, tag: str) -> None:
    repository = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"
    assert RUNTIMES[name].image == f"{repository}:{tag}"


@pytest.mark.parametrize(
    ("name", "mode", "settings"),
    [
        # The fork's loader never reads a method: the override alone decides.
        (FORK, Mode.FUSED, {}),
        (FORK, Mode.EAGLE, {}),
        # The plugin knows no method but eagle; is_eagle3 in the override makes it EAGLE3.
        (PLUGIN, Mode.EAGLE, {"method": "eagle"}),
        (PLUGIN, Mode.EAGLE3, {"method": "eagle"}),
    ],
)
def test_speculative_config(name: str, mode: Mode, settings: dict[str, Any]) -> None:
    flag, value = RUNTIMES[name].speculation_flags(mode, DRAFT, 7, 1024)
    assert flag == "--speculative-config"
    assert json.loads(value) == settings | {
        "model": DRAFT,
        "num_speculative_tokens": 7,
        "max_model_len": 1024,
    }


@pytest.mark.parametrize(
    ("name", "mode", "overrides"),
    [
        (FORK, Mode.FUSED, {"enable_fused_speculation": True}),
        (FORK, Mode.EAGLE, {"enable_eagle_speculation": True}),
        (PLUGIN, Mode.EAGLE, {"enable_eagle_speculation": True}),
        (PLUGIN, Mode.EAGLE3, {"enable_eagle_speculation": True, "is_eagle3": True}),
    ],
)
def test_what_switches_a_mode_on(name: str, mode: Mode, overrides: dict[str, bool]) -> None:
    assert RUNTIMES[name].modes[mode].overrides == overrides


def test_the_fork_takes_overrides_as_they_are() -> None:
    flag, value = RUNTIMES[FORK].override_flags(Mode.FUSED)
    assert flag == "--override-neuron-config"
    assert json.loads(value) == {"enable_fused_speculation": True}


def test_the_plugin_takes_them_below_a_key_with_underscores() -> None:
    flag, value = RUNTIMES[PLUGIN].override_flags(Mode.EAGLE)
    assert flag == "--additional-config"
    assert json.loads(value) == {"override_neuron_config": {"enable_eagle_speculation": True}}


@pytest.mark.parametrize(("name", "mode"), SERVED)
def test_json_fits_on_a_command_line(name: str, mode: Mode) -> None:
    runtime = RUNTIMES[name]
    _, configuration = runtime.override_flags(mode)
    _, speculation = runtime.speculation_flags(mode, DRAFT, 7, 1024)
    for value in (configuration, speculation):
        assert not set(value) & set(" \n'"), value
        assert "-" not in "".join(_keys(json.loads(value))), value


def _keys(value: object) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [*value, *(key for inner in value.values() for key in _keys(inner))]


def test_the_environment_of_the_fork_selects_nxdi_and_the_v0_engine() -> None:
    assert RUNTIMES[FORK].environment == {
        "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
        "VLLM_USE_V1": "0",
        "VLLM_RPC_TIMEOUT": "100000",
    }


def test_each_runtime_s_engine_is_the_one_that_its_environment_selects() -> None:
    assert {name: runtime.engine for name, runtime in RUNTIMES.items()} == {
        FORK: Engine.V0,
        PLUGIN: Engine.V1,
    }
    for runtime in RUNTIMES.values():
        selected = runtime.environment.get("VLLM_USE_V1") == "0"
        assert (runtime.engine is Engine.V0) == selected


def test_the_plugin_needs_no_environment() -> None:
    assert RUNTIMES[PLUGIN].environment == {}


def test_prompts_stay_out_of_the_forks_log() -> None:
    assert "--disable-log-requests" in RUNTIMES[FORK].flags


def test_the_plugin_prefills_every_prompt() -> None:
    assert "--no-enable-prefix-caching" in RUNTIMES[PLUGIN].flags


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (Mode.FUSED, ModelKind.CAUSAL_LM),
        (Mode.EAGLE, ModelKind.EAGLE_HEAD),
        (Mode.EAGLE3, ModelKind.EAGLE3_HEAD),
    ],
)
def test_what_a_mode_drafts_with(mode: Mode, kind: ModelKind) -> None:
    for name in runtimes_serving(mode):
        assert RUNTIMES[name].modes[mode].draft is kind


@pytest.mark.parametrize(("name", "mode"), SERVED)
def test_nxdi_samples_greedily_and_needs_a_window_of_two(name: str, mode: Mode) -> None:
    assert RUNTIMES[name].modes[mode].greedy_only
    assert RUNTIMES[name].modes[mode].minimum_tokens == 2


def test_eagle_is_for_the_one_family_whose_class_knows_it() -> None:
    for runtime in RUNTIMES.values():
        for mode in (Mode.EAGLE, Mode.EAGLE3):
            if mode in runtime.modes:
                assert runtime.modes[mode].families == {Family.LLAMA}
    assert set(Family) == RUNTIMES[FORK].modes[Mode.FUSED].families
