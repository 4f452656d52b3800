"""Where each flag, option, variable and path of vllm-neuron was read: the newest line that says it.

vLLM's own are in the source of 0.29.0, the version in the image. Of Neuron's documents at v2.33.0
we could read beginnings only, a section without a line. What they leave out is of 2.32: its
documents or forks of its plugin (docs/assumptions.md, A11 and A14).
"""

import json
from typing import Any, Final

import pytest

from experiment.loader import parse
from experiment.runtimes import RUNTIMES, Paths
from experiment.variants import variants
from tests.experiment.files import edited, of_file

VLLM: Final = "vllm@v0.29.0 vllm"
ARGUMENTS: Final = f"{VLLM}/engine/arg_utils.py"
NEGATION: Final = "and :389, which makes the --no- of each flag that has a bool"
PAGES: Final = "awsdocs-neuron v2.33.0 vllm-neuron/docs"
DOCS: Final = "aws-neuron-sdk@81ce03ae vllm-neuron/docs"
FEATURE: Final = "aws-neuron-sdk@81ce03ae about-neuron/arch/neuron-features"
FORK: Final = "jinhuang12/vllm-neuron"
SOURCES: Final = {
    "--served-model-name": f"{ARGUMENTS}:953",
    "--port": f"{VLLM}/entrypoints/launchers/cli_args.py:255",
    "--tensor-parallel-size": f"{ARGUMENTS}:1108",
    "--dtype": f"{ARGUMENTS}:902",
    "--max-model-len": f"{ARGUMENTS}:916",
    "--max-num-batched-tokens": f"{ARGUMENTS}:1582",
    "--max-num-seqs": f"{ARGUMENTS}:1596",
    "--block-size": f"{ARGUMENTS}:1270",
    "--num-gpu-blocks-override": f"{ARGUMENTS}:1279",
    "--no-enable-prefix-caching": f"{ARGUMENTS}:1282 {NEGATION}",
    "--no-async-scheduling": f"{ARGUMENTS}:1645 {NEGATION}",
    "--no-enable-chunked-prefill": f"{ARGUMENTS}:1619 {NEGATION}",
    "--disable-hybrid-kv-cache-manager": f"{ARGUMENTS}:1641",
    "--additional-config": f"{ARGUMENTS}:1729",
    "neuron_config": f"{PAGES}/guides/reference-configuration, Overview",
    "num_seqs_buckets": f"{PAGES}/guides/reference-configuration, Overview",
    "on_device_sampling_config": f"{PAGES}/design/vllm/additional-config, Configuration Structure",
    "all_greedy": f"{FORK}@289de16c, model/neuron_config.py, OnDeviceSamplingConfig",
    "quantization": f"{FORK}@289de16c, model/neuron_config.py, NeuronConfig",
    "--speculative-config": f"{ARGUMENTS}:1698",
    "method": f"{VLLM}/config/speculative.py:386, with eagle3 and dflash in 69",
    "model": f"{VLLM}/config/speculative.py:383",
    "num_speculative_tokens": f"{VLLM}/config/speculative.py:380",
    "VLLM_CACHE_ROOT": f"{PAGES}/guides/how-to-precompile-cache, Prerequisites",
    "NEURON_LIBTORCH_CACHE_ROOT": f"{FORK}@01d4f004, kernel_source_digest.md, Manual device check",
    "NEURON_LOGICAL_NC_CONFIG": f"{FEATURE}/logical-neuroncore-config.rst:37",
    "NEURON_SKIP_EFA_AFFINITY": f"{DOCS}/tutorials/tutorial-qwen3-vl-32b.md:130",
    "NEURON_LIBTORCH_COMPILATION_TIMEOUT": f"{DOCS}/guides/reference-configuration.md:198",
    "VLLM_NEURON_BARRIER_TIMEOUT": f"{FORK}@0bae3e9c, envs.py, environment_variables",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": f"{VLLM}/envs.py:1766",
    "VLLM_ENGINE_READY_TIMEOUT_S": f"{VLLM}/envs.py:796",
    "VLLM_NEURON_DISABLE_WARMUP_COMPILE": f"{DOCS}/design/compilation/compilation_cache.md:153",
    "/var/tmp/nki-intermediate-cache": "foxl-ai/kiln@a04d1fab, kiln/compile_cache.py, SDK 2.32",
}
PATHS: Final = Paths("/target", "/draft", "/artifact", "/scratch", "/scripts")


def keys(value: Any) -> set[str]:
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
            words = variant.runtime.serve_command(variant.engine_config, PATHS, 8000)
            names |= {word for word in words if word.startswith("--")}
            names |= {key for word in words if word[0] == "{" for key in keys(json.loads(word))}
            names |= set(variant.runtime.serve_environment(variant.engine_config, PATHS))
    return names


def test_each_flag_variable_and_path_has_its_source_and_none_is_left_over(used: set[str]) -> None:
    assert used == set(SOURCES)
