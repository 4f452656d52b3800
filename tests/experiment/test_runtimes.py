"""What differs between runtimes beside their command lines, which test_commands.py has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from experiment.loader import parse
from experiment.runtimes import (
    RUNTIMES,
    Engine,
    Mode,
    Paths,
    Preparation,
)
from experiment.runtimes import inference_demo as medusa
from experiment.variants import Variant, variants
from tests.experiment.files import EAGLE, EAGLE3_HEAD, LLAMA_70B, QWEN3_HEAD, edited

FORK, PLUGIN, NEURON = "vllm-0.9.1-nxdi", "vllm-0.16-nxdi", "vllm-neuron-1.x"

# What makes an experiment of each runtime and mode of the article's.
FORK_FUSED: dict[str, Any] = {}
FORK_EAGLE = EAGLE
PLUGIN_EAGLE = EAGLE | {"runtime": PLUGIN}
PLUGIN_EAGLE3 = PLUGIN_EAGLE | {"speculation.mode": "eagle3", "models.draft": EAGLE3_HEAD}
EACH = (FORK_FUSED, FORK_EAGLE, PLUGIN_EAGLE, PLUGIN_EAGLE3)
NEURON_EAGLE3 = {
    "runtime": NEURON,
    "speculation.mode": "eagle3",
    "models.draft": QWEN3_HEAD,
}

FORK_FLAG, PLUGIN_FLAG = "--override-neuron-config", "--additional-config"
PATHS = Paths(
    target="/target", draft="/draft", artifact="/artifact", scratch="/scratch", scripts="/scripts"
)
ARTIFACT_ENVIRONMENT = {"NEURON_COMPILED_ARTIFACTS": "/artifact", "NEURON_LOGICAL_NC_CONFIG": "2"}


def speculative(changes: dict[str, Any]) -> Variant:
    _, variant, *_ = variants(parse(edited(changes), "mine.yaml"))
    return variant


def environment(changes: dict[str, Any]) -> Mapping[str, str]:
    variant = speculative(changes)
    return variant.runtime.serve_environment(variant, PATHS)


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        (FORK, "0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04"),
        (PLUGIN, "0.16.0-neuronx-py312-sdk2.31.1-ubuntu24.04"),
        (NEURON, "0.24.0.1.1.0-neuronx-py313-sdk2.32.0-ubuntu24.04"),
    ],
)
def test_images_are_pinned(name: str, tag: str) -> None:
    repository = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"
    assert RUNTIMES[name].image == f"{repository}:{tag}"


def test_the_environment_of_the_fork_selects_nxdi_and_the_v0_engine() -> None:
    assert environment(FORK_FUSED) == ARTIFACT_ENVIRONMENT | {
        "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
        "VLLM_USE_V1": "0",
        "VLLM_RPC_TIMEOUT": "100000",
    }


def test_the_plugin_needs_no_environment_of_its_own() -> None:
    assert environment(PLUGIN_EAGLE) == ARTIFACT_ENVIRONMENT


def test_each_runtime_s_engine_is_the_one_that_its_environment_selects() -> None:
    engines = {FORK: Engine.V0, PLUGIN: Engine.V1, NEURON: Engine.V1}
    assert {name: runtime.engine for name, runtime in RUNTIMES.items()} == engines
    for changes in EACH:
        selected = environment(changes).get("VLLM_USE_V1") == "0"
        assert (speculative(changes).runtime.engine is Engine.V0) == selected


@pytest.mark.parametrize(
    ("name", "mode", "fewest", "most"),
    [
        # NxDI keeps a position of the window for the token that the drafts follow.
        *((FORK, mode, 2, None) for mode in (Mode.FUSED, Mode.EAGLE, Mode.VANILLA)),
        *((PLUGIN, mode, 2, None) for mode in (Mode.EAGLE, Mode.EAGLE3)),
        (FORK, Mode.MEDUSA, 1, 4),
        *((NEURON, mode, 1, None) for mode in (Mode.EAGLE3, Mode.DFLASH)),
    ],
)
def test_which_windows_a_mode_takes(name: str, mode: Mode, fewest: int, most: int | None) -> None:
    support = RUNTIMES[name].modes[mode]
    assert (support.minimum_tokens, support.maximum_tokens) == (fewest, most)


@pytest.mark.parametrize(
    ("name", "mode", "window", "ahead"),
    [
        (FORK, Mode.FUSED, 7, 7),
        (FORK, Mode.VANILLA, 7, 7),
        # The nodes of the tree, and its root.
        (FORK, Mode.MEDUSA, 1, 7),
        (FORK, Mode.MEDUSA, 4, 64),
        (NEURON, Mode.EAGLE3, 3, 3),
    ],
)
def test_how_far_a_step_looks_ahead(name: str, mode: Mode, window: int, ahead: int) -> None:
    assert RUNTIMES[name].modes[mode].ahead(window) == ahead


def key(changes: dict[str, Any]) -> tuple[str, ...]:
    return speculative(NEURON_EAGLE3 | changes).compile_flags


def test_what_decides_a_graph_of_vllm_neuron_is_in_its_key_and_no_path_is() -> None:
    flags = key({})
    assert not [word for word in flags if PATHS.target in word or "/draft" in word]
    changes: tuple[dict[str, Any], ...] = (
        {"speculation.num_speculative_tokens": 3},
        {"serving.batch": 8},
        {"serving.length": 2048},
        {"serving.devices": 4, "serving.tensor_parallel": 16},
    )
    assert len({flags, *map(key, changes)}) == 1 + len(changes)


def test_a_first_start_has_time_and_its_cache_a_root() -> None:
    given = dict(environment(NEURON_EAGLE3))
    timeouts = {name: given.pop(name) for name in list(given) if "TIMEOUT" in name}
    assert len(timeouts) == 5
    assert set(timeouts.values()) == {"21600"}
    assert given == {
        "VLLM_CACHE_ROOT": "/artifact/vllm",
        "NEURON_LIBTORCH_CACHE_ROOT": "/artifact/vllm",
        "NEURON_LOGICAL_NC_CONFIG": "2",
        "NEURON_SKIP_EFA_AFFINITY": "1",
    }


def test_a_complete_cache_is_not_added_to() -> None:
    runtime = RUNTIMES[NEURON]
    assert runtime.complete_environment == {"VLLM_NEURON_DISABLE_WARMUP_COMPILE": "1"}
    assert runtime.cached_at == {"nki": "/var/tmp/nki-intermediate-cache"}
    assert [r.preparation for r in RUNTIMES.values()] == [
        *(Preparation.COMPILE_JOB, Preparation.COMPILE_JOB, Preparation.FIRST_START)
    ]


def test_what_dflash_needs_goes_to_all_variants_of_its_experiment() -> None:
    small = {"serving.devices": 1, "serving.tensor_parallel": 4}
    figures = LLAMA_70B["architecture"] | {"checkpoint_gib": 16.0}
    target = LLAMA_70B | {"id": "example/llama", "architecture": figures}
    head = EAGLE3_HEAD
    block = head | {"architecture": head["architecture"] | {"kind": "dflash-draft", "drafts": 9}}
    listed = [
        {"name": "E", "mode": "eagle3", "num_speculative_tokens": 3, "draft": head},
        {"name": "D", "mode": "dflash", "num_speculative_tokens": 9, "draft": block},
    ]
    changes = small | {"runtime": NEURON, "models.target": target, "speculation": listed}
    found = variants(parse(edited(changes), "mine.yaml"))
    flags = [list(v.runtime.serve_command(v, PATHS, 8000)) for v in found]
    *speculative, matched = flags[1:]
    without = [words[: words.index("--speculative-config")] for words in speculative]
    assert without == [matched] * 2
    assert all("--no-enable-chunked-prefill" in words for words in flags)


def test_the_tree_is_the_published_one_and_each_cut_of_it_is_a_tree() -> None:
    """63 nodes on four levels (``examples/medusa_mc_sim_7b_63.json`` of NxDI v0.6.10598)."""
    assert Counter(map(len, medusa.medusa_tree(4))) == {1: 6, 2: 15, 3: 21, 4: 21}
    assert max(rank for way in medusa.medusa_tree(4) for rank in way) == 9
    for heads in (1, 2, 3, 4):
        ways = [tuple(way) for way in medusa.medusa_tree(heads)]
        assert len(set(ways)) == len(ways) == medusa.medusa_nodes(heads) - 1
        assert max(map(len, ways)) == heads
        assert {way[:-1] for way in ways} <= {(), *ways}
        assert json.loads(medusa.medusa_tree_files()[f"medusa-tree-{heads}.json"]) == [
            *map(list, ways)
        ]
        assert max(rank for way in ways for rank in way) < medusa.CANDIDATES
