"""vLLM 0.29 with vllm-neuron 1.2 (SDK 2.33), which runs models without NxDI.

It compiles on the devices, at its first start, into a cache that later starts find, by the native
route, its default. ``tests/experiment/test_vllm_neuron.py`` has the source of each flag, variable
and path. No page shows this very command line: it is put together of theirs (docs/assumptions.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

from experiment.known_models import Family, Mode, ModelKind
from experiment.runtimes.runtime import (
    EngineConfig,
    ModeSupport,
    Paths,
    Preparation,
    Runtime,
    compact,
    serve,
    tools,
)
from spectap.names import Engine

_DOCUMENTATION: Final = (
    "https://github.com/aws-neuron/aws-neuron-sdk/blob/81ce03ae261e12925e53437a0f690478e6366155/"
    "vllm-neuron/docs"
)

_PLUGIN: Final = (
    "https://github.com/vllm-project/vllm-neuron/blob/cf2a407b6431758f5283f7f121026b3c7b90970b/docs"
)

_BLOCK: Final = 32
"""Tokens per block of the KV cache, as in the examples of DFlash (``run_tp4.sh``)."""
_SPARE_BLOCKS: Final = 1
"""vLLM takes block 0 for padding (vllm v0.29.0, ``v1/core/block_pool.py``). The examples have 176,
and the features guide (cf2a407b) none: a DFlash draft's time grows with the blocks that there are.
"""

_ASYNC: Final = "async scheduling"

_PATIENCE_SECONDS: Final = 6 * 60 * 60
"""The value of each timeout, which is for a whole first start. That may compile for hours."""


@dataclass(frozen=True, kw_only=True)
class HeadMode(ModeSupport):
    """A mode whose draft is a model trained on the target's hidden states."""

    method: str
    """``method`` of ``--speculative-config``."""
    minimum_tokens: int = 1
    greedy_only: bool = True
    families: frozenset[Family] = frozenset({Family.LLAMA, Family.QWEN3})
    unproven: frozenset[Family] = frozenset({Family.QWEN3})
    flags: tuple[str, ...] = ()
    """Flags that the mode needs. All variants of the experiment get them."""
    neuron_config: Mapping[str, Any] = field(default_factory=dict)
    """Neuron's options that the mode needs. All variants get them, too."""


@dataclass(frozen=True, kw_only=True)
class VllmNeuron(Runtime):
    """The plugin that runs models without NxDI."""

    modes: Mapping[Mode, HeadMode]

    @override
    def cache_tokens(self, config: EngineConfig) -> int:
        return -(-super().cache_tokens(config) // _BLOCK) * _BLOCK + _SPARE_BLOCKS * _BLOCK

    @override
    def compile_flags(self, config: EngineConfig) -> tuple[str, ...]:
        """The flags that decide the graphs: whole prompts are prefilled, and prefixes are not
        cached.

        The number of blocks is fixed, because it is a shape of the graphs and would otherwise
        depend on the free memory at the start.
        """
        blocks = self.cache_tokens(config) // _BLOCK
        used = [self.modes[mode] for mode in config.modes]
        neuron_config = {
            "num_seqs_buckets": [config.batch],
            "on_device_sampling_config": {"all_greedy": True},
            **{key: value for mode in used for key, value in mode.neuron_config.items()},
        }
        return (
            *("--tensor-parallel-size", str(config.serving.tensor_parallel)),
            *("--dtype", "bfloat16"),
            *("--max-model-len", str(config.serving.length)),
            *("--max-num-batched-tokens", str(config.serving.length)),
            *("--max-num-seqs", str(config.batch)),
            *("--block-size", str(_BLOCK)),
            *("--num-gpu-blocks-override", str(blocks)),
            "--no-enable-prefix-caching",
            *(("--no-async-scheduling",) if config.without else ()),
            *dict.fromkeys(flag for mode in used for flag in mode.flags),
            *("--additional-config", compact({"neuron_config": neuron_config})),
            *self._speculation(config, None),
        )

    @override
    def serve_command(self, config: EngineConfig, paths: Paths, port: int) -> list[str]:
        graphs = self.compile_flags(config)
        decoding = len(self._speculation(config, None))
        return [
            *serve(config, paths, port),
            *graphs[: len(graphs) - decoding],
            *tools(config),
            *self._speculation(config, paths.draft),
        ]

    def serve_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        """The cache's place, for the plugin and its compiler, and timeouts for a first start.

        Pods have no EFA device, which its workers look for by default (``run_tp4.sh``).
        """
        cache = f"{paths.artifact}/vllm"
        return {
            "VLLM_CACHE_ROOT": cache,
            "NEURON_LIBTORCH_CACHE_ROOT": cache,
            "NEURON_LOGICAL_NC_CONFIG": str(config.serving.logical_core_size),
            "NEURON_SKIP_EFA_AFFINITY": "1",
            **dict.fromkeys(_TIMEOUTS, str(_PATIENCE_SECONDS)),
        }

    def _speculation(self, config: EngineConfig, draft: str | None) -> tuple[str, ...]:
        """The flag that switches the mode on. Without the draft's path, it decides the graphs."""
        if config.mode is None:
            return ()
        settings = {
            "method": self.modes[config.mode].method,
            **({"model": draft} if draft else {}),
            "num_speculative_tokens": config.window,
        }
        return ("--speculative-config", compact(settings))


_TIMEOUTS: Final = (
    "NEURON_LIBTORCH_COMPILATION_TIMEOUT",
    "VLLM_NEURON_BARRIER_TIMEOUT",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
    "VLLM_ENGINE_READY_TIMEOUT_S",
)
"""Each in seconds."""

RUNTIME: Final = VllmNeuron(
    name="vllm-neuron",
    image="public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.29.0.1.2.0-neuronx-py314-sdk2.33.0-ubuntu26.04",
    # The first of four days after driver 2.31.7; the library is 2.35 (both of SDK 2.33).
    ami_release="1.35.8-20261023",
    engine=Engine.V1,
    counts_drafts=True,
    modes={
        Mode.EAGLE3: HeadMode(
            draft=ModelKind.EAGLE3_HEAD,
            method="eagle3",
            # The features guide (cf2a407b) excludes it. The code corrects drafts for it
            # (09006a44, spec_decode/eagle.py); whether the image's does is not known.
            speculates_without=_ASYNC,
            may_keep_it=True,
            source=f"{_DOCUMENTATION}/tutorials/tutorial-eagle3-speculative-decoding-llama-3-1.md",
        ),
        Mode.DFLASH: HeadMode(
            draft=ModelKind.DFLASH_DRAFT,
            method="dflash",
            # Its code raises ValueError on it (09006a44, spec_decode/dflash.py).
            speculates_without=_ASYNC,
            source=f"{_PLUGIN}/guides/features-guide.md#dflash",
            tensor_parallel=(4, 8),
            flags=("--no-enable-chunked-prefill", "--disable-hybrid-kv-cache-manager"),
            neuron_config={"quantization": "bf16"},
        ),
    },
    # A prompt is prefilled at once up to 16,384 tokens, in powers of two from 128.
    lengths=tuple(2**power for power in range(7, 15)),
    # "the nkilib decode kernels this plugin calls assume LNC=2" (60fd2447, README.md of gpt-oss-20b
    # with DFlash).
    logical_core_size=2,
    # Of the 24 GiB of a core 23.5 are usable, and activations take 4.7 (b3a5a71f, README.md of
    # Qwen3.5).
    usable_memory=0.78,
    # 0.30 of gpu_memory_utilization, whose default is 0.9: what is planned beyond that fails in the
    # compiler (aws-neuron-sdk 81ce03ae, determine_available_memory_design.md).
    cache_memory=0.27,
    # AWS's tutorials take 8 or 16 cores of an instance with 64.
    takes_fewer_cores=True,
    preparation=Preparation.FIRST_START,
    # Graphs name files of this folder by their absolute path.
    cached_at={"nki": "/var/tmp/nki-intermediate-cache"},
    complete_environment={"VLLM_NEURON_DISABLE_WARMUP_COMPILE": "1"},
)
