"""What is said of a compiler's error: in ``make status``, and where ``make experiment`` ends.

The logs are made after reports: vllm-neuron b3a5a71f (README.md of Qwen3.5), aws-neuron-sdk 706,
1222 and 1369.
"""

from typing import Final

from syrupy.assertion import SnapshotAssertion

from operations.pods import meaning
from tests.snapshots import TextSnapshot, filled

RANKS: Final = "ERROR [multiproc_executor.py:962] Traceback (most recent call last):\n" * 60
LOGS: Final = {
    "HBM": "[NCC_EVRF009] Size of total input and output tensors exceeds HBM limit of TRN2 [...] "
    "Needed 27,029,780,748 bytes (25 GB) vs. available 25,769,803,776 bytes (24 GB)\n" + RANKS,
    "activations": "ERROR: [NCC_EOOM002] The combined memory needed\n",
    "level": "[NCC_IINAR001] ISA validation failed: Copy;\n"
    "inst failed assertion check: 'start_addr_active_channels'\n" + RANKS,
    "barrier": "RuntimeError: neuronx-cc compilation failed with 70. Check compiler logs.\n"
    '  File "vllm_neuron/parallel/neuron_parallel_state.py", line 1318, in tp_barrier\n'
    "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer\n",
    "host": "INFO:Neuron:generating HLO: context_encoding_model\nKilled\n",
    "host, by the trace": "RuntimeError: neuronx-cc failed with -9\n",
    "host, of the plugin": "RuntimeError: neuronx-cc compilation failed with -9. "
    "Check compiler logs.\n",
    "host, by bash": "compile.sh: line 12: 41 Killed                  inference_demo run\n",
    "crash of NxDI": "Command '['neuronx-cc', 'compile']' returned non-zero exit status 70.\n",
    "defect": "[NCC_INLA001] Unhandled exception\nneuronx-cc compilation failed with 70.\n",
    "load": "Failure: NRT_RESOURCE in nrt_load()\n",
    "another": "nrt_init failed; the watchdog: Killed 3 workers\n",
}


def test_the_most_telling_error_has_its_meaning(snapshot: SnapshotAssertion) -> None:
    meanings = (filled(f"{name}: {meaning(text)}") for name, text in LOGS.items())
    assert "\n".join([*meanings, ""]) == snapshot(extension_class=TextSnapshot)
