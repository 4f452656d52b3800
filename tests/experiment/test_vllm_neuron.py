"""Where each flag, option, variable and path of vllm-neuron was read: the newest line that says it.

Of the documents at v2.33.0 our copies have beginnings only; theirs is a page without a line. The
others are of 2.32, or of the plugin's source (docs/assumptions.md, A11 and A14).
"""

import json
from typing import Any, Final

import pytest

from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Paths
from experiment.variants import variants
from tests.experiment.files import edited, of_file

DOCS: Final = "aws-neuron-sdk@81ce03ae vllm-neuron/docs"
EAGLE3: Final = f"{DOCS}/tutorials/tutorial-eagle3-speculative-decoding-llama-3-1.md"
FEATURES: Final = f"{DOCS}/guides/features-guide.md"
START: Final = f"{DOCS}/getting-started/quickstart-online-serving.md"
DFLASH: Final = "vllm-neuron@fa252127 examples/vllm_neuron/models/llama3/dflash/run_tp4.sh"
FEATURE: Final = "aws-neuron-sdk@81ce03ae about-neuron/arch/neuron-features"
FORK: Final = "jinhuang12/vllm-neuron"
SOURCES: Final = {
    "--served-model-name": f"{DOCS}/tutorials/tutorial-qwen3-vl-32b.md:137",
    "--port": f"{START}:42",
    "--tensor-parallel-size": f"{DFLASH}:39",
    "--dtype": f"{DFLASH}:40",
    "--max-model-len": f"{EAGLE3}:180",
    "--max-num-batched-tokens": f"{START}:40",
    "--max-num-seqs": f"{EAGLE3}:179",
    "--num-gpu-blocks-override": f"{FEATURES}:189",
    "--no-enable-prefix-caching": f"{FEATURES}:174",
    "--no-async-scheduling": f"{FEATURES}:494",
    "--no-enable-chunked-prefill": f"{DFLASH}:46",
    "--disable-hybrid-kv-cache-manager": f"{DFLASH}:48",
    "--additional-config": f"{FEATURES}:365",
    "neuron_config": f"{DOCS}/design/vllm/additional-config.md:23",
    "num_seqs_buckets": f"{DOCS}/design/vllm/additional-config.md:25",
    "on_device_sampling_config": f"{DOCS}/design/vllm/additional-config.md:26",
    "all_greedy": f"{DOCS}/design/framework/model_bringup.md:647",
    "quantization": f"{DFLASH}:50",
    "--speculative-config": f"{FEATURES}:554",
    "method": f"{EAGLE3}:183",
    "model": f"{EAGLE3}:184",
    "num_speculative_tokens": f"{EAGLE3}:185",
    "VLLM_CACHE_ROOT": "v2.33.0, how-to-precompile-cache.html, Prerequisites",
    "NEURON_LIBTORCH_CACHE_ROOT": f"{FORK}@01d4f004, kernel_source_digest.md, Manual device check",
    "NEURON_LOGICAL_NC_CONFIG": f"{FEATURE}/logical-neuroncore-config.rst:37",
    "NEURON_SKIP_EFA_AFFINITY": f"{DFLASH}:30",
    "NEURON_LIBTORCH_COMPILATION_TIMEOUT": f"{DOCS}/guides/reference-configuration.md:198",
    "VLLM_NEURON_BARRIER_TIMEOUT": f"{FORK}@0bae3e9c, envs.py, environment_variables",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": f"{START}:31",
    "VLLM_ENGINE_READY_TIMEOUT_S": f"{DOCS}/tutorials/tutorial-di-1p1d-xpyd.md:113",
    "VLLM_NEURON_DISABLE_WARMUP_COMPILE": f"{DOCS}/design/compilation/compilation_cache.md:153",
    "/var/tmp/nki-intermediate-cache": "the message of NCC_EVRF059, SDK 2.32",
}
PATHS: Final = Paths("/target", "/draft", "/artifact", "/scratch", "/scripts")


def keys(value: Any) -> set[str]:
    """Keys of a JSON value, at any depth."""
    if not isinstance(value, dict):
        return set()
    return {*value, *(key for below in value.values() for key in keys(below))}


@pytest.fixture
def used() -> set[str]:
    """What the two experiments that AWS documents use, and what a complete cache adds."""
    names = set(RUNTIMES["vllm-neuron"].complete_environment)
    names |= set(RUNTIMES["vllm-neuron"].cached_at.values())
    for file in ("eagle3", "dflash"):
        for variant in variants(parse(edited(of_file(file)), "mine.yaml")):
            words = variant.runtime.serve_command(variant, PATHS, 8000)
            names |= {word for word in words if word.startswith("--")}
            names |= {key for word in words if word[0] == "{" for key in keys(json.loads(word))}
            names |= set(variant.runtime.serve_environment(variant, PATHS))
    return names


def test_each_flag_variable_and_path_has_its_source_and_none_is_left_over(used: set[str]) -> None:
    assert used == set(SOURCES)
