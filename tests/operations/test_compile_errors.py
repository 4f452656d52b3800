"""What is said of a compiler's error: in ``make status``, and where ``make experiment`` ends.

The logs are made after reports: vllm-neuron b3a5a71f (README.md of Qwen3.5), aws-neuron-sdk 706,
1222 and 1369.
"""

from typing import Final

import pytest

from operations.pods import meaning

RANKS: Final = "ERROR [multiproc_executor.py:962] Traceback (most recent call last):\n" * 60
LOGS: Final = {
    "HBM": (
        "[NCC_EVRF009] Size of total input and output tensors exceeds HBM limit of TRN2 [...] "
        "Needed 27,029,780,748 bytes (25 GB) vs. available 25,769,803,776 bytes (24 GB)\n" + RANKS,
        "NCC_EVRF009: weights, KV cache and activations exceed a core's memory: lower",
    ),
    "activations": (
        "ERROR: [NCC_EOOM002] The combined memory needed\n",
        "NCC_EOOM002: weights, KV",
    ),
    "level": (
        "[NCC_IINAR001] ISA validation failed: Copy;\n"
        "inst failed assertion check: 'start_addr_active_channels'\n" + RANKS,
        "NCC_IINAR001: a graph fails at -O1 and may compile at -O2 or -O3",
    ),
    "barrier": (
        "RuntimeError: neuronx-cc compilation failed with 70. Check compiler logs.\n"
        '  File "vllm_neuron/parallel/neuron_parallel_state.py", line 1318, in tp_barrier\n'
        "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer\n",
        "compilation failed with 70: a compiler crashed: try again by the same command",
    ),
    "host": (
        "INFO:Neuron:generating HLO: context_encoding_model\nKilled\n",
        "Killed: the compiler had",
    ),
    "host, by the trace": (
        "RuntimeError: neuronx-cc failed with -9\n",
        "failed with -9: the compiler",
    ),
    "host, of the plugin": (
        "RuntimeError: neuronx-cc compilation failed with -9. Check compiler logs.\n",
        "failed with -9: the compiler had too little",
    ),
    "host, by bash": (
        "compile.sh: line 12: 41 Killed                  inference_demo run\n",
        "41 Killed: the compiler had",
    ),
    "crash of NxDI": (
        "Command '['neuronx-cc', 'compile']' returned non-zero exit status 70.\n",
        "exit status 70: a compiler crashed",
    ),
    "defect": (
        "[NCC_INLA001] Unhandled exception\nneuronx-cc compilation failed with 70.\n",
        "NCC_INLA001: the compiler has a defect",
    ),
    "load": ("Failure: NRT_RESOURCE in nrt_load()\n", "NRT_RESOURCE: the graphs and weights"),
    "another": ("nrt_init failed; the watchdog: Killed 3 workers\n", ""),
}


@pytest.mark.parametrize(("text", "words"), LOGS.values(), ids=[*LOGS])
def test_the_most_telling_error_has_its_meaning(text: str, words: str) -> None:
    assert words in meaning(text)
    assert bool(meaning(text)) is bool(words)
