"""What differs between runtimes beside their command lines, which commands.txt has."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Mode, Paths
from experiment.runtimes.inference_demo import (
    CANDIDATES,
    medusa_nodes,
    medusa_tree,
    medusa_tree_files,
)
from experiment.variants import variants
from tests.experiment.files import DFLASH_DRAFT, EAGLE, EAGLE3_HEAD, QWEN3_HEAD, edited, model

FORK, PLUGIN, NEURON = "vllm-0.9.1-nxdi", "vllm-0.16-nxdi", "vllm-neuron-1.x"
NEURON_EAGLE3 = {"runtime": NEURON, "speculation.mode": "eagle3", "models.draft": QWEN3_HEAD}
PATHS = Paths("/target", "/draft", "/artifact", "/scratch", "/scripts")


ARTIFACT = {"NEURON_COMPILED_ARTIFACTS": "/artifact", "NEURON_LOGICAL_NC_CONFIG": "2"}
TIMEOUTS = (
    *("NEURON_LIBTORCH_COMPILATION_TIMEOUT", "VLLM_NEURON_COMPILATION_TIMEOUT"),
    *("VLLM_NEURON_BARRIER_TIMEOUT", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"),
    "VLLM_ENGINE_READY_TIMEOUT_S",
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # What selects NxDI and the engine V0.
        (
            EAGLE,
            ARTIFACT
            | {"VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference"}
            | {"VLLM_USE_V1": "0", "VLLM_RPC_TIMEOUT": "100000"},
        ),
        (EAGLE | {"runtime": PLUGIN}, ARTIFACT),
        # Time for a first start, and a root of its cache.
        (
            NEURON_EAGLE3,
            dict.fromkeys(TIMEOUTS, "21600")
            | {"VLLM_CACHE_ROOT": "/artifact/vllm", "NEURON_LIBTORCH_CACHE_ROOT": "/artifact/vllm"}
            | {"NEURON_LOGICAL_NC_CONFIG": "2", "NEURON_SKIP_EFA_AFFINITY": "1"},
        ),
    ],
    ids=[FORK, PLUGIN, NEURON],
)
def test_a_server_has_this_environment(changes: dict[str, Any], expected: dict[str, str]) -> None:
    variant = variants(parse(edited(changes), "mine.yaml"))[1]
    assert variant.runtime.serve_environment(variant, PATHS) == expected


@pytest.mark.parametrize(
    ("name", "mode", "fewest", "most", "drafts", "ahead"),
    [
        # NxDI keeps a position of the window for the token that the drafts follow.
        *((FORK, mode, 2, None, 3, 4) for mode in (Mode.FUSED, Mode.EAGLE, Mode.VANILLA)),
        *((PLUGIN, mode, 2, None, 3, 4) for mode in (Mode.EAGLE, Mode.EAGLE3)),
        # One for each head; the nodes of the tree, and its root.
        (FORK, Mode.MEDUSA, 1, 4, 4, 64),
        *((NEURON, mode, 1, None, 4, 4) for mode in (Mode.EAGLE3, Mode.DFLASH)),
    ],
)
def test_which_windows_a_mode_takes_and_what_a_window_of_four_drafts_and_looks_ahead(
    name: str, mode: Mode, fewest: int, most: int | None, drafts: int, ahead: int
) -> None:
    support = RUNTIMES[name].modes[mode]
    assert (support.minimum_tokens, support.maximum_tokens) == (fewest, most)
    assert (support.drafts_per_step(4), support.ahead(4)) == (drafts, ahead)


def test_what_decides_a_graph_of_vllm_neuron_is_in_its_key_and_no_path_is() -> None:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"speculation.num_speculative_tokens": 3},
        {"serving.batch": 8},
        {"serving.length": 2048},
        {"serving.devices": 4, "serving.tensor_parallel": 16},
    )
    keys = {
        variants(parse(edited(NEURON_EAGLE3 | change), "mine.yaml"))[1].compile_flags
        for change in changes
    }
    assert len(keys) == len(changes)
    assert not [word for key in keys for word in key if "/target" in word or "/draft" in word]


def test_what_dflash_needs_goes_to_all_variants_of_its_experiment() -> None:
    listed = [
        {"name": "E", "mode": "eagle3", "num_speculative_tokens": 3, "draft": EAGLE3_HEAD},
        {"name": "D", "mode": "dflash", "num_speculative_tokens": 9, "draft": DFLASH_DRAFT},
    ]
    small = {"serving.devices": 1, "serving.tensor_parallel": 4, "speculation": listed}
    target = model("example/llama", "7", 128256, 80, 8192, 16.0)
    experiment = parse(edited(small | {"runtime": NEURON, "models.target": target}), "mine.yaml")
    commands = [v.runtime.serve_command(v, PATHS, 8000) for v in variants(experiment)]
    *speculative, matched = commands[1:]
    without = [words[: words.index("--speculative-config")] for words in speculative]
    assert without == [matched] * 2
    assert all("--no-enable-chunked-prefill" in words for words in commands)


def test_the_tree_is_the_published_one_and_each_cut_of_it_is_a_tree() -> None:
    """63 nodes on four levels (``examples/medusa_mc_sim_7b_63.json`` of NxDI v0.6.10598)."""
    assert Counter(map(len, medusa_tree(4))) == {1: 6, 2: 15, 3: 21, 4: 21}
    for heads in (1, 2, 3, 4):
        ways = [tuple(path) for path in medusa_tree(heads)]
        assert len(set(ways)) == len(ways) == medusa_nodes(heads) - 1
        assert max(map(len, ways)) == heads
        assert {path[:-1] for path in ways} <= {(), *ways}
        assert json.loads(medusa_tree_files()[f"medusa-tree-{heads}.json"]) == medusa_tree(heads)
    assert max(rank for path in medusa_tree(4) for rank in path) == 9 < CANDIDATES
