"""The loader's part: an artifact as NxDI compiles it, and what the fork sets over it when serving.

Read in neuronx-distributed-inference v0.6.10598 (``inference_demo.py``, ``models/config.py``; the
key ``is_eagle3`` from v0.7) and in vLLM 0.9.1
(``vllm/model_executor/model_loader/neuronx_distributed.py``). Not all keys of NxDI stand here: one
that does not is reported as unknown, which is the safe side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from experiment.runtimes import medusa_tree


@dataclass(frozen=True)
class OnDeviceSampling:
    """NxDI's ``OnDeviceSamplingConfig``, an object that the model runner reads attributes of."""

    top_k: int
    do_sample: bool = False
    dynamic: bool = False
    deterministic: bool = False
    global_topk: int = 256


DEFAULTS: Final[Mapping[str, Any]] = {
    "async_mode": False,
    "batch_size": 1,
    "ctx_batch_size": 1,
    "enable_bucketing": False,
    "enable_eagle_draft_input_norm": False,
    "enable_eagle_speculation": False,
    "enable_fused_speculation": False,
    "is_continuous_batching": False,
    "is_eagle3": False,
    "is_medusa": False,
    "logical_nc_config": 1,
    "max_context_length": 128,
    "medusa_speculation_length": 0,
    "num_medusa_heads": 0,
    "on_device_sampling_config": None,
    "padding_side": "right",
    "save_sharded_checkpoint": False,
    "seq_len": 128,
    "sequence_parallel_enabled": False,
    "skip_warmup": False,
    "speculation_length": 0,
    "tkg_batch_size": 1,
    "torch_dtype": "bfloat16",
    "tp_degree": 1,
}
_VALUES: Final[Mapping[str, Callable[[str], Any]]] = {
    "batch_size": int,
    "ctx_batch_size": int,
    "logical_nc_config": int,
    "max_context_length": int,
    "medusa_speculation_length": int,
    "num_medusa_heads": int,
    "padding_side": str,
    "seq_len": int,
    "speculation_length": int,
    "tkg_batch_size": int,
    "torch_dtype": str,
    "tp_degree": int,
}
_ELSEWHERE: Final = ("on_device_sampling", "top_k", "global_topk")
"""Flags that become part of the sampling object."""
_OF_THE_RUN: Final = (
    *("model_type", "task_type", "model_path", "draft_model_path"),
    *("compiled_model_path", "compiled_draft_model_path", "medusa_tree_json"),
    *("compile_only", "skip_compile", "benchmark", "prompt", "max_new_tokens"),
)
"""Flags that are no part of what is compiled."""


def artifact(flags: Sequence[str]) -> dict[str, Any]:
    """The configuration that ``inference_demo`` writes into an artifact compiled with ``flags``."""
    given: dict[str, str | None] = {}
    for word, following in pairwise([*flags, "--"]):
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            given[name] = None if following.startswith("--") else following
    configuration = dict(DEFAULTS)
    for name, value in given.items():
        if name in _ELSEWHERE or name in _OF_THE_RUN:
            continue
        assert name in DEFAULTS, f"inference_demo has no flag for {name}"
        assert (value is None) == (DEFAULTS[name] is False), f"{name}: {value}"
        configuration[name] = True if value is None else _VALUES[name](value)
    if "on_device_sampling" in given:
        sampling = OnDeviceSampling(
            top_k=int(given.get("top_k") or 1), global_topk=int(given.get("global_topk") or 256)
        )
        configuration["on_device_sampling_config"] = sampling
    # NeuronConfig's constructor: EAGLE is a kind of fused speculation.
    configuration["enable_fused_speculation"] |= configuration["enable_eagle_speculation"]
    return configuration


def overrides(command: Sequence[str]) -> dict[str, Any]:
    """What a command of vLLM sets over the artifact's configuration."""
    given = dict(pairwise(command))
    fork = json.loads(given.get("--override-neuron-config", "{}"))
    plugin = json.loads(given.get("--additional-config", "{}")).get("override_neuron_config", {})
    return {**fork, **plugin}


def faults(compiled: Mapping[str, Any], overridden: Mapping[str, Any]) -> list[str]:
    """Why a service with these overrides is not the one that was compiled; none if it is.

    The fork sets every key as it is, with ``setattr``, on NxDI's configuration object.
    """
    found = []
    for key, value in overridden.items():
        if key not in compiled:
            found.append(f"{key}: the artifact has no such key")
        elif type(value) is not type(compiled[key]):
            found.append(f"{key}: {type(value).__name__}, not {type(compiled[key]).__name__}")
        elif value != compiled[key]:
            found.append(f"{key}: {value}, compiled with {compiled[key]}")
    return found


def job_faults(compiled: Mapping[str, Any], window: int | None) -> list[str]:
    """Why ``inference_demo`` could not generate with this configuration; none if it can.

    Read in NxDI v0.6.10598 (``utils/hf_adapter.py``, ``models/model_wrapper.py``,
    ``models/model_base.py``) and neuronx_distributed 2.26 (``medusa_utils.py``).
    """
    sampling, found = compiled["on_device_sampling_config"], []
    if compiled["batch_size"] != 1:
        found.append("assisted generation decodes one sequence")
    if compiled["is_medusa"]:
        tree = medusa_tree.tree(compiled["num_medusa_heads"])
        if sampling is None:
            found.append("Medusa asserts sampling on the device")
        elif sampling.global_topk <= max(rank for way in tree for rank in way):
            found.append("the tree has ranks that the device does not hand out")
        if compiled["medusa_speculation_length"] != len(tree) + 1:
            found.append("no graph has the length of the tree and its root")
        if compiled["enable_bucketing"] or compiled["sequence_parallel_enabled"]:
            found.append("the graph that verifies the tree has neither")
        if compiled["num_medusa_heads"] != window:
            found.append("another number of heads than the window")
    elif compiled["speculation_length"]:
        if sampling is not None:
            found.append("the target hands out no logits, which drafting reads")
        if compiled["enable_fused_speculation"] or compiled["is_continuous_batching"]:
            found.append("that is another mode")
        if compiled["speculation_length"] != window:
            found.append("another length than the window")
    return found
