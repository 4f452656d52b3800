"""Errors of Neuron's compiler that people meet: what each means, and what to do.

From Neuron's list of error codes (awsdocs-neuron v2.33.0, ``compiler/error-codes``) and reports:
vllm-neuron 16 and b3a5a71f (README.md of Qwen3.5), aws-neuron-sdk 706, 1222 and 1369, and
optimum-neuron 668.
"""

import re
from typing import Final

_ERRORS: Final = {
    r"NCC_EVRF009|NCC_EOOM00\d|exceeds HBM limit": "weights, KV cache and activations exceed a "
    "core's memory: lower serving.batch or serving.length, or raise serving.tensor_parallel",
    r"NCC_EARG001": "the compiler does not support this serving.logical_core_size",
    r"NCC_IINAR001": "a graph fails at -O1 and may compile at -O2 or -O3: add the level to the "
    "flags of all variants in experiment/runtimes/",
    r"NCC_I[A-Z]+\d+": "the compiler has a defect, and trying again seldom helps: take other "
    "shapes, or report it to aws-neuron-sdk",
    # In bash's words a child that is killed has its script and line before it.
    r"\[F137\]|neuronx-cc.*failed with -9|(?m:^(.*: line \d+: +\d+ )?Killed\b)": "the "
    "compiler had too little memory: compile fewer graphs at once, or on a larger instance",
    r"NRT_RESOURCE|nrt_tensor_allocate": "the graphs and weights do not fit into the devices' "
    "memory: lower serving.batch or serving.length",
    r"neuronx-cc.*(failed with|exit status) 70\b|tp_barrier": "a compiler crashed: try again "
    "by the same command, for what has compiled is kept; if it fails again, look for an NCC_ code "
    "in its log",
}
"""The most telling first: a failure at ``tp_barrier`` follows from that of a graph."""


def meaning(log: str) -> str:
    """Meaning of the error in ``log``, and what to do; empty where it has none of these."""
    for pattern, text in _ERRORS.items():
        if match := re.search(pattern, log):
            return f"{match[0][-60:]}: {text}"
    return ""
