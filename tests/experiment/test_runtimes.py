"""What differs between runtimes beside commands.txt; their environment is in snapshots."""

import json
from collections import Counter
from typing import Any

from syrupy.assertion import SnapshotAssertion

from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Paths
from experiment.runtimes.inference_demo import (
    CANDIDATES,
    medusa_nodes,
    medusa_tree,
    medusa_tree_files,
)
from experiment.variants import variants
from tests.experiment.files import DFLASH_DRAFT, EAGLE3_HEAD, QWEN3_HEAD, edited, model
from tests.snapshots import TemplateSnapshot

NEURON = "vllm-neuron"
NEURON_EAGLE3 = {"runtime": NEURON, "speculation.mode": "eagle3", "models.draft": QWEN3_HEAD}
PATHS = Paths("/target", "/draft", "/artifact", "/scratch", "/scripts")


def test_windows_of_each_mode_and_what_one_of_four_drafts_and_looks_ahead(
    snapshot: SnapshotAssertion,
) -> None:
    """NxDI keeps a position of the window for the token that the drafts follow. Medusa has one for
    each head, and looks ahead by the nodes of its tree, and its root."""
    windows = {
        f"{mode} on {name}": f"{support.minimum_tokens} to {support.maximum_tokens}; of 4: "
        f"{support.drafts_per_step(4)} drafts, {support.ahead(4)} ahead"
        for name, runtime in RUNTIMES.items()
        for mode, support in runtime.modes.items()
    }
    assert windows == snapshot(extension_class=TemplateSnapshot)


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
    commands = [v.runtime.serve_command(v.engine_config, PATHS, 8000) for v in variants(experiment)]
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
