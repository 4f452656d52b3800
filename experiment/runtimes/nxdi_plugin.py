"""vLLM 0.16 with Neuron's plugin. Source: vllm-project/vllm-neuron.

The plugin knows no method but eagle; ``is_eagle3`` in the overrides makes it EAGLE3.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from experiment.architecture import ModelKind
from experiment.runtimes.nxdi import IMAGES, LLAMA, Nxdi, NxdiMode
from experiment.runtimes.runtime import Engine, Mode

RUNTIME: Final = Nxdi(
    name="vllm-0.16-nxdi",
    image=f"{IMAGES}:0.16.0-neuronx-py312-sdk2.31.1-ubuntu24.04",
    engine=Engine.V1,
    modes=MappingProxyType(
        {
            Mode.EAGLE: NxdiMode(
                draft=ModelKind.EAGLE_HEAD,
                families=LLAMA,
                method="eagle",
                overrides=("enable_eagle_speculation",),
            ),
            Mode.EAGLE3: NxdiMode(
                draft=ModelKind.EAGLE3_HEAD,
                families=LLAMA,
                method="eagle",
                overrides=("enable_eagle_speculation", "is_eagle3"),
            ),
        }
    ),
    config_flag="--additional-config",
    # With underscores: the dashed spelling is ignored without a word.
    config_key="override_neuron_config",
    # The plugin's block cache would answer the second of two equal prompts without a prefill.
    flags=("--no-enable-prefix-caching",),
)
