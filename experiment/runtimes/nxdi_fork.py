"""vLLM 0.9.1, Neuron's fork, and the modes that NxDI's ``inference_demo`` runs in the same image.

The image has the tag 2.26.1 of aws-neuron/upstreaming-to-vllm. What was read is vLLM 0.9.1, which
has the same loader (docs/assumptions.md). It reads no method: the overrides alone decide the mode.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from experiment.architecture import ModelKind
from experiment.runtimes.command_line import IMAGES
from experiment.runtimes.inference_demo import MedusaMode, VanillaMode
from experiment.runtimes.nxdi import ANY, FEATURE_GUIDE, LLAMA, Nxdi, ServedMode
from experiment.runtimes.runtime import Engine, Mode

_LOADER: Final = (
    "https://github.com/vllm-project/vllm/blob/v0.9.1/"
    "vllm/model_executor/model_loader/neuronx_distributed.py"
)
_TUTORIAL: Final = (
    "https://github.com/aws-neuron/aws-neuron-sdk/blob/81ce03ae261e12925e53437a0f690478e6366155/"
    "libraries/nxd-inference/tutorials/sd-inference-tutorial.rst"
)

RUNTIME: Final = Nxdi(
    name="vllm-0.9.1-nxdi",
    image=f"{IMAGES}:0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04",
    # Driver 2.28, the last before 2.29; the library is 2.28 (SDK 2.26.1).
    ami_release="1.35.6-20260625",
    engine=Engine.V0,
    modes=MappingProxyType(
        {
            Mode.FUSED: ServedMode(
                draft=ModelKind.CAUSAL_LM,
                families=ANY,
                # As AWS serves this pair on this image (docs/assumptions.md).
                method="eagle",
                overrides=("enable_fused_speculation",),
                source=_TUTORIAL,
            ),
            Mode.EAGLE: ServedMode(
                draft=ModelKind.EAGLE_HEAD,
                families=LLAMA,
                overrides=("enable_eagle_speculation",),
                source=_LOADER,
            ),
            Mode.VANILLA: VanillaMode(
                draft=ModelKind.CAUSAL_LM, families=ANY, source=f"{FEATURE_GUIDE}#L504-L592"
            ),
            Mode.MEDUSA: MedusaMode(
                draft=ModelKind.MEDUSA_HEADS, families=LLAMA, source=f"{FEATURE_GUIDE}#L594-L631"
            ),
        }
    ),
    config_flag="--override-neuron-config",
    config_key=None,
    # 0.9 logs every prompt unless it is told not to.
    flags=("--disable-log-requests",),
    environment=MappingProxyType(
        {
            "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
            "VLLM_USE_V1": "0",
            # Milliseconds, as in Neuron's own tutorials; the default of 10 s is for GPUs.
            "VLLM_RPC_TIMEOUT": "100000",
        }
    ),
)
