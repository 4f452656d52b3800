"""vLLM 0.16 with Neuron's plugin. Source: vllm-project/vllm-neuron.

The plugin knows no method but eagle; ``is_eagle3`` in the overrides makes it EAGLE3.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from experiment.architecture import ModelKind
from experiment.runtimes.command_line import IMAGES
from experiment.runtimes.nxdi import LLAMA, Nxdi, ServedMode
from experiment.runtimes.runtime import Engine, Mode

_LOADER: Final = (
    "https://github.com/vllm-project/vllm-neuron/blob/0d6b1cb7/"
    "vllm_neuron/worker/neuronx_distributed_model_loader.py"
)

RUNTIME: Final = Nxdi(
    name="vllm-0.16-nxdi",
    image=f"{IMAGES}:0.16.0-neuronx-py312-sdk2.31.1-ubuntu24.04",
    # Driver 2.29; the library is 2.33 (both of SDK 2.31).
    ami_release="1.35.6-20260714",
    engine=Engine.V1,
    modes=MappingProxyType(
        {
            Mode.EAGLE: ServedMode(
                draft=ModelKind.EAGLE_HEAD,
                families=LLAMA,
                method="eagle",
                overrides=("enable_eagle_speculation",),
                source=_LOADER,
            ),
            Mode.EAGLE3: ServedMode(
                draft=ModelKind.EAGLE3_HEAD,
                families=LLAMA,
                method="eagle",
                # Without the last, NxDI's Llama leaves out the two norms that every EAGLE3 head has
                # before its attention, and says nothing (0.10, ``models/llama/modeling_llama.py``).
                overrides=(
                    "enable_eagle_speculation",
                    "is_eagle3",
                    "enable_eagle_draft_input_norm",
                ),
                source=_LOADER,
            ),
        }
    ),
    config_flag="--additional-config",
    # With underscores: the dashed spelling is ignored without a word.
    config_key="override_neuron_config",
    # The plugin's block cache would answer the second of two equal prompts without a prefill.
    flags=("--no-enable-prefix-caching",),
)
