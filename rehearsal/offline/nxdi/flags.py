"""The command line of ``inference_demo``: every flag it takes, and none that it does not.

Source: neuronx-distributed-inference v0.6.10598, ``inference_demo.py`` (``setup_run_parser``).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

MODEL_TYPES: Final = "llama llama4 mllama mixtral dbrx qwen2 qwen3 qwen3_moe"

_SWITCHES: Final = """
benchmark do-sample dynamic top-k-kernel-enabled allow-input-truncation output-logits vocab-parallel
layer-boundary-markers fused-qkv sequence-parallel-enabled flash-decoding-enabled
is-continuous-batching disable-kv-cache-tiling on-device-sampling enable-bucketing
bucket-n-active-tokens quantized kv-cache-quant early-expert-affinity-modulation
disable-normalize-top-k-affinities fused-shared-experts enable-fused-speculation
enable-eagle-speculation enable-eagle-draft-input-norm is-medusa enable-torch-dist
save-sharded-checkpoint skip-sharding enable-block-kv-layout enable-chunked-prefill
enable-prefix-caching async-mode enable-lora qkv-kernel-enabled qkv-kernel-nbsd-layout
strided-context-parallel-kernel-enabled mlp-kernel-enabled quantized-mlp-kernel-enabled
fused-rmsnorm-skip-gamma rmsnorm-quantize-kernel-enabled mlp-kernel-fuse-residual-add
qkv-kernel-fuse-residual-add attn-tkg-nki-kernel-enabled attn-tkg-builtin-kernel-enabled
attn-block-tkg-nki-kernel-enabled attn-block-tkg-nki-kernel-cache-update
attn-block-cte-nki-kernel-enabled k-cache-transposed enable-spill-reload-dge on-cpu skip-warmup
skip-compile compile-only compile-dry-run hlo-debug apply-seq-ids-mask
enable-output-completion-notifications
"""
_TEXTS: Final = """
tol-map padding-side quantized-checkpoints-path quantization-type quantization-dtype router-act-fn
router-dtype draft-model-path compiled-draft-model-path activation-quantization-type
input-capture-save-dir check-accuracy-mode expected-outputs-path torch-dtype rpl-reduce-dtype
attention-dtype modules-to-not-convert-file cast-type
"""
_NUMBERS: Final = """
num-tokens-to-check global-topk batch-size seq-len n-active-tokens n-positions max-context-length
max-new-tokens max-length weight-gather-seq-len-threshold ctx-batch-size tkg-batch-size
max-batch-size kv-cache-batch-size kv-cache-padding-size draft-model-tp-degree speculation-length
spec-batch-size medusa-speculation-length num-medusa-heads tp-degree cp-degree attention-dp-degree
pp-degree ep-degree world-size start_rank_id local_ranks_size pa-num-blocks pa-block-size
max-num-seqs max-loras max-lora-rank max-loras-on-cpu cc-pipeline-tiling-factor
scratchpad-page-size
"""
_FRACTIONS: Final = "divergence-difference-tol capacity-factor quantize-clamp-bound"
_SEVERAL: Final = """
context-encoding-buckets prefix-buckets token-generation-buckets target-modules capture-indices
input-start-offsets
"""


def parse(argv: list[str]) -> argparse.Namespace:
    """The arguments of ``inference_demo``. Raises SystemExit for what it does not take."""
    parser = argparse.ArgumentParser(prog="inference_demo")
    parser.add_argument("--model-type", choices=MODEL_TYPES.split(), required=True)
    parser.add_argument("--task-type", required=True)
    _run_options(parser.add_subparsers().add_parser("run"))
    arguments = parser.parse_args(argv)
    if arguments.task_type != "causal-lm":
        raise AssertionError(f"Unsupported task: {arguments.model_type}/{arguments.task_type}")
    return arguments


def _run_options(parser: argparse.ArgumentParser) -> None:
    for name in ("model-path", "compiled-model-path"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--prompt", dest="prompts", action="append", required=True)
    parser.add_argument("--benchmark-report-path", default="./benchmark_report.json")
    for name, kind, usual in (
        ("top-k", int, 1),
        ("top-p", float, 1.0),
        ("temperature", float, 1.0),
        ("pad-token-id", int, 0),
    ):
        parser.add_argument(f"--{name}", type=kind, default=usual)
    parser.add_argument("--attn-kernel-enabled", action=argparse.BooleanOptionalAction)
    parser.add_argument("--medusa-tree-json", type=_json, dest="medusa_tree")
    parser.add_argument("--token-tree-json", type=_json, dest="token_tree_config")
    for name in ("lora-ckpt-path", "adapter-id"):
        parser.add_argument(f"--{name}", action="append")
    for name in _SWITCHES.split():
        parser.add_argument(f"--{name}", action="store_true")
    _add(parser, _TEXTS, str)
    _add(parser, _NUMBERS, int)
    _add(parser, _FRACTIONS, float)
    for name in _SEVERAL.split():
        parser.add_argument(f"--{name}", nargs="+")
    cores = parser.add_mutually_exclusive_group()
    for name in ("logical-neuron-cores", "logical-nc-config"):
        cores.add_argument(f"--{name}", type=int)


def _add(parser: argparse.ArgumentParser, names: str, kind: Callable[[str], Any]) -> None:
    for name in names.split():
        parser.add_argument(f"--{name}", type=kind)


def _json(path: str) -> Any:
    return json.loads(Path(path).read_bytes())
