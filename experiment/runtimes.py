"""Runtimes: the image generations that serve on Trainium, and how each spells its flags.

Sources: aws-neuron-sdk, NxD Inference feature guide and release notes; the Neuron branch of
aws-neuron/upstreaming-to-vllm (``neuronx_distributed.py``); vllm-project/vllm-neuron.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from experiment.known_models import Family, ModelKind


class Mode(StrEnum):
    """Ways of speculative decoding that Neuron's documentation names."""

    VANILLA = "vanilla"
    FUSED = "fused"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MEDUSA = "medusa"
    DFLASH = "dflash"


class Engine(StrEnum):
    """vLLM's two engines. They count differently: see ``benchmark.endpoint.counters``."""

    V0 = "v0"
    V1 = "v1"


@dataclass(frozen=True)
class ModeSupport:
    """How one runtime serves one mode."""

    draft: ModelKind | None
    """What the draft must be; None for a mode that needs no draft model."""
    families: frozenset[Family]
    """Target families whose model class can do it."""
    method: str | None
    """``method`` of ``--speculative-config``; None where the loader never reads it."""
    overrides: Mapping[str, bool]
    """Keys that switch the mode on, both where it is compiled (``inference_demo`` has a flag of the
    same name for each) and where it is served. Scalars only: the fork sets each of them over
    NxDI's own configuration, which a mapping would replace by something NxDI cannot read
    (``model_loader/neuronx_distributed.py``)."""
    minimum_tokens: int
    """NxDI verifies ``num_speculative_tokens`` positions with one draft fewer."""
    greedy_only: bool
    """Tokens are sampled greedily on the device, whatever temperature a request asks for."""


@dataclass(frozen=True)
class Runtime:
    """One image generation."""

    name: str
    image: str
    engine: Engine
    modes: Mapping[Mode, ModeSupport]
    config_flag: str
    """Flag that carries the overrides as JSON."""
    config_key: str | None
    """Key under which that JSON holds it; None where it is the JSON itself."""
    flags: tuple[str, ...] = ()
    """Flags this generation needs for any model."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def override_flags(self, mode: Mode) -> tuple[str, ...]:
        """The flags that tell the Neuron backend at serving time which mode the artifact is of."""
        overrides = self.modes[mode].overrides
        value = {self.config_key: overrides} if self.config_key else overrides
        return (self.config_flag, compact(value))

    def speculation_flags(
        self, mode: Mode, draft: str, num_speculative_tokens: int, length: int
    ) -> tuple[str, ...]:
        """The flags that add the draft model at path ``draft``.

        ``length`` is the draft's context, which must be the target's: the published sample's
        README gives the draft 2048 tokens beside a target of 1024.
        """
        method = self.modes[mode].method
        settings = {
            **({"method": method} if method else {}),
            "model": draft,
            "num_speculative_tokens": num_speculative_tokens,
            "max_model_len": length,
        }
        return ("--speculative-config", compact(settings))


def compact(value: Mapping[str, Any]) -> str:
    """JSON for a command line: one line, keys in the given order."""
    return json.dumps(value, separators=(",", ":"))


_ANY: Final = frozenset(Family)
_LLAMA: Final = frozenset({Family.LLAMA})
"""The one family here whose class in NxDI knows an EAGLE draft (0.6 to 0.9,
``models/llama/modeling_llama.py``: ``is_eagle_draft``, ``is_eagle3``; Qwen's classes do not)."""

_IMAGES: Final = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"

_NXDI_FORK: Final = Runtime(
    name="vllm-0.9.1-nxdi",
    image=f"{_IMAGES}:0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04",
    engine=Engine.V0,
    modes=MappingProxyType(
        {
            Mode.FUSED: ModeSupport(
                ModelKind.CAUSAL_LM,
                families=_ANY,
                method=None,
                overrides={"enable_fused_speculation": True},
                minimum_tokens=2,
                greedy_only=True,
            ),
            Mode.EAGLE: ModeSupport(
                ModelKind.EAGLE_HEAD,
                families=_LLAMA,
                method=None,
                overrides={"enable_eagle_speculation": True},
                minimum_tokens=2,
                greedy_only=True,
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

_NXDI_PLUGIN: Final = Runtime(
    name="vllm-0.16-nxdi",
    image=f"{_IMAGES}:0.16.0-neuronx-py312-sdk2.31.1-ubuntu24.04",
    engine=Engine.V1,
    modes=MappingProxyType(
        {
            Mode.EAGLE: ModeSupport(
                ModelKind.EAGLE_HEAD,
                families=_LLAMA,
                method="eagle",
                overrides={"enable_eagle_speculation": True},
                minimum_tokens=2,
                greedy_only=True,
            ),
            Mode.EAGLE3: ModeSupport(
                ModelKind.EAGLE3_HEAD,
                families=_LLAMA,
                method="eagle",
                overrides={"enable_eagle_speculation": True, "is_eagle3": True},
                minimum_tokens=2,
                greedy_only=True,
            ),
        }
    ),
    config_flag="--additional-config",
    # With underscores: the dashed spelling is ignored without a word.
    config_key="override_neuron_config",
    # The plugin's block cache would answer the second of two equal prompts without a prefill.
    flags=("--no-enable-prefix-caching",),
)

RUNTIMES: Final = MappingProxyType({r.name: r for r in (_NXDI_FORK, _NXDI_PLUGIN)})


def serving_in_words(mode: Mode) -> str:
    """Who serves ``mode`` for which families, e.g. ``vllm-0.9.1-nxdi (llama)``."""
    return ", ".join(
        f"{name} ({', '.join(sorted(RUNTIMES[name].modes[mode].families))})"
        for name in runtimes_serving(mode)
    )


def runtimes_serving(mode: Mode) -> tuple[str, ...]:
    """Names of the runtimes that can serve ``mode``."""
    return tuple(name for name, runtime in RUNTIMES.items() if mode in runtime.modes)
