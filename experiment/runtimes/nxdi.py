"""The generations of vLLM that run models by NeuronX Distributed Inference (NxDI).

Serve flags: aws-neuron-sdk, NxD Inference feature guide and release notes. It is compiled with
``inference_demo``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

from experiment.known_models import Family, Mode, ModelKind
from experiment.runtimes.inference_demo import (
    ARTIFACT,
    PREPARATIONS,
    PROGRAM,
    CompiledMode,
    JobMode,
    MedusaMode,
    VanillaMode,
)
from experiment.runtimes.runtime import EngineConfig, Paths, Runtime, compact, serve, tools
from spectap.names import Engine

_ANY: Final = frozenset(Family)
_LLAMA: Final = frozenset({Family.LLAMA})
"""The only family of ours whose class in NxDI knows an EAGLE draft (0.6 to 0.9,
``models/llama/modeling_llama.py``: ``is_eagle_draft``, ``is_eagle3``; Qwen's classes do not) and
Medusa heads (0.6, in the same file)."""

DRAFT: Final = "draft"
"""The folder of an artifact that has a prepared draft's configuration. ``compile.sh`` makes it."""

_HEADS: Final = {ModelKind.EAGLE_HEAD: "eagle", ModelKind.EAGLE3_HEAD: "eagle3"}
"""Names of heads in ``prepare_draft.py``."""

_FEATURE_GUIDE: Final = (
    "https://github.com/aws-neuron/aws-neuron-sdk/blob/81ce03ae261e12925e53437a0f690478e6366155/"
    "libraries/nxd-inference/developer_guides/feature-guide.rst"
)


@dataclass(frozen=True, kw_only=True)
class ServedMode(CompiledMode):
    """A mode that vLLM serves."""

    method: str | None = None
    """``method`` of ``--speculative-config``; None leaves it to vLLM. The graph is the same."""
    overrides: tuple[str, ...]
    """The overrides that are set to true and switch the mode on in the server; ``inference_demo``
    has a flag of the same name for each."""

    @override
    def own_flags(self, config: EngineConfig) -> tuple[str, ...]:
        return (
            *("--speculation-length", str(config.window)),
            *(f"--{key.replace('_', '-')}" for key in self.overrides),
        )

    @override
    def draft_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """Adds to a published EAGLE head the parts of its target that NxDI needs."""
        if self.prepared_by is None or self.draft is None or paths.draft is None:
            return []
        return [self.prepared_by, _HEADS[self.draft], paths.draft, paths.target]

    @override
    def artifact_parts(self, config: EngineConfig) -> tuple[str, ...]:
        # A prepared draft is served from the artifact.
        prepared = (f"{DRAFT}/config.json",) if self.prepared_by and config.has_draft else ()
        return (*ARTIFACT, *prepared)

    def served_draft(self, paths: Paths) -> str | None:
        """The folder given to vLLM, which reads only its ``config.json``.

        vLLM cannot read a published head's, so a prepared draft has a configuration of its own.
        """
        return f"{paths.artifact}/{DRAFT}" if self.prepared_by else paths.draft


@dataclass(frozen=True, kw_only=True)
class Nxdi(Runtime):
    """A generation of vLLM that runs models by way of NxDI."""

    modes: Mapping[Mode, CompiledMode]
    # aws-neuron-sdk, ``announce-eos-nxdi-nxd-core-inference.rst`` of 2026-10-16.
    maintenance: str | None = (
        "NxDI is in maintenance since SDK 2.30, and AWS ends its support on Trn2 with 2.34; it "
        "develops vllm-neuron instead, which has eagle3 and dflash"
    )
    one_family: bool = True
    # Neither 0.6 nor 0.10 knows the word (``models/llama/modeling_llama.py``).
    takes_norm_before_residual: bool = False
    config_flag: str
    """Flag that carries the overrides as JSON."""
    config_key: str | None
    """Key under which that JSON holds them; None where it is the JSON itself."""
    flags: tuple[str, ...]
    """Flags that this generation needs for any model."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @override
    def artifact_parts(self, config: EngineConfig) -> tuple[str, ...]:
        return self._mode(config).artifact_parts(config)

    @override
    def compile_flags(self, config: EngineConfig) -> tuple[str, ...]:
        return self._mode(config).flags(config)

    @override
    def compile_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        mode = self._mode(config)
        return [
            *(PROGRAM, *_task(config)),
            *mode.compiled_folders(config, paths),
            *mode.flags(config),
            *mode.further_flags(config, paths),
            # It wants a prompt even if it does not run one.
            *("--compile-only", "--prompt", "x"),
        ]

    @override
    def compile_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        # There is no device to ask what to compile for.
        return {
            "NEURON_PLATFORM_TARGET_OVERRIDE": config.platform,
            **_cores(config),
            "BASE_COMPILE_WORK_DIR": f"{paths.scratch}/work/",
        }

    @override
    def draft_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        return self._mode(config).draft_command(config, paths)

    @override
    def draft_version(self, config: EngineConfig) -> tuple[str, ...]:
        script = self._mode(config).prepared_by
        return (f"{script}={PREPARATIONS[script]}",) if script and config.has_draft else ()

    @override
    def generate_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """The command repeats all flags: it does not read the artifact's (``run_inference``)."""
        mode = self._mode(config)
        if not isinstance(mode, JobMode):
            return super().generate_command(config, paths)
        return [
            *(*mode.program(config, paths), *_task(config)),
            *mode.run_folders(config, paths),
            *mode.flags(config),
            *mode.further_flags(config, paths),
            *("--skip-compile", "--prompt", "x", "--benchmark"),
        ]

    @override
    def generate_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        # This wins over the flag of the same meaning.
        return _cores(config)

    @override
    def serve_command(self, config: EngineConfig, paths: Paths, port: int) -> list[str]:
        return [
            *serve(config, paths, port),
            *("--tensor-parallel-size", str(config.serving.tensor_parallel)),
            *("--max-num-seqs", str(config.batch)),
            *("--max-model-len", str(config.served_length)),
            *self.flags,
            *tools(config),
            *self._speculation(config, paths),
        ]

    @override
    def serve_environment(self, config: EngineConfig, paths: Paths) -> Mapping[str, str]:
        artifact = {"NEURON_COMPILED_ARTIFACTS": paths.artifact}
        return {**self.environment, **artifact, **_cores(config)}

    def _mode(self, config: EngineConfig) -> CompiledMode:
        return self.modes[config.compiled_mode]

    def _speculation(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        """The artifact's mode, and a draft with the target's context."""
        support = self.modes[config.mode] if config.mode else None
        if not isinstance(support, ServedMode):
            return ()
        overrides: dict[str, Any] = dict.fromkeys(support.overrides, True)
        if self.config_key:
            overrides = {self.config_key: overrides}
        settings = {
            **({"method": support.method} if support.method else {}),
            **({"model": draft} if (draft := support.served_draft(paths)) else {}),
            "num_speculative_tokens": config.window,
            "max_model_len": config.served_length,
        }
        return (
            *(self.config_flag, compact(overrides)),
            *("--speculative-config", compact(settings)),
        )


def _task(config: EngineConfig) -> tuple[str, ...]:
    return ("--model-type", config.family, "--task-type", "causal-lm", "run")


def _cores(config: EngineConfig) -> dict[str, str]:
    return {"NEURON_LOGICAL_NC_CONFIG": str(config.serving.logical_core_size)}


_FORK_LOADER: Final = (
    "https://github.com/vllm-project/vllm/blob/v0.9.1/"
    "vllm/model_executor/model_loader/neuronx_distributed.py"
)
_TUTORIAL: Final = (
    "https://github.com/aws-neuron/aws-neuron-sdk/blob/81ce03ae261e12925e53437a0f690478e6366155/"
    "libraries/nxd-inference/tutorials/sd-inference-tutorial.rst"
)

FORK: Final = Nxdi(
    name="vllm-0.9.1-nxdi",
    image="public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.9.1-neuronx-py311-sdk2.26.1-ubuntu22.04",
    # Driver 2.28, the last before 2.29; the library is 2.28 (SDK 2.26.1).
    ami_release="1.35.6-20260625",
    engine=Engine.V0,
    modes={
        Mode.FUSED: ServedMode(
            draft=ModelKind.CAUSAL_LM,
            families=_ANY,
            # As AWS serves this pair on this image (docs/assumptions.md).
            method="eagle",
            overrides=("enable_fused_speculation",),
            source=_TUTORIAL,
        ),
        Mode.EAGLE: ServedMode(
            draft=ModelKind.EAGLE_HEAD,
            families=_LLAMA,
            overrides=("enable_eagle_speculation",),
            prepared_by="prepare_draft.py",
            source=_FORK_LOADER,
        ),
        Mode.VANILLA: VanillaMode(
            draft=ModelKind.CAUSAL_LM, families=_ANY, source=f"{_FEATURE_GUIDE}#L504-L592"
        ),
        Mode.MEDUSA: MedusaMode(
            draft=ModelKind.MEDUSA_HEADS, families=_LLAMA, source=f"{_FEATURE_GUIDE}#L594-L631"
        ),
    },
    config_flag="--override-neuron-config",
    config_key=None,
    # 0.9 logs every prompt unless it is told not to.
    flags=("--disable-log-requests",),
    environment={
        "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
        "VLLM_USE_V1": "0",
        # Milliseconds, as in Neuron's own tutorials; the default of 10 s is for GPUs.
        "VLLM_RPC_TIMEOUT": "100000",
    },
)
"""vLLM 0.9.1, Neuron's fork, and the modes that ``inference_demo`` runs in the same image.

The image has the tag 2.26.1 of aws-neuron/upstreaming-to-vllm. What was read is vLLM 0.9.1, which
has the same loader (docs/assumptions.md). It reads no method: the overrides alone decide the mode.
"""

_PLUGIN_LOADER: Final = (
    "https://github.com/vllm-project/vllm-neuron/blob/0d6b1cb7/"
    "vllm_neuron/worker/neuronx_distributed_model_loader.py"
)

PLUGIN: Final = Nxdi(
    name="vllm-0.16-nxdi",
    image="public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.16.0-neuronx-py312-sdk2.31.1-ubuntu24.04",
    # Driver 2.29; the library is 2.33 (both of SDK 2.31).
    ami_release="1.35.6-20260714",
    engine=Engine.V1,
    modes={
        Mode.EAGLE: ServedMode(
            draft=ModelKind.EAGLE_HEAD,
            families=_LLAMA,
            method="eagle",
            overrides=("enable_eagle_speculation",),
            prepared_by="prepare_draft.py",
            source=_PLUGIN_LOADER,
        ),
        Mode.EAGLE3: ServedMode(
            draft=ModelKind.EAGLE3_HEAD,
            families=_LLAMA,
            method="eagle",
            # Without the last, NxDI's Llama leaves out the two norms that every EAGLE3 head has
            # before its attention, and says nothing (0.10, ``models/llama/modeling_llama.py``).
            overrides=("enable_eagle_speculation", "is_eagle3", "enable_eagle_draft_input_norm"),
            prepared_by="prepare_draft.py",
            source=_PLUGIN_LOADER,
        ),
    },
    config_flag="--additional-config",
    # With underscores: the dashed spelling is ignored without a word.
    config_key="override_neuron_config",
    # The plugin's block cache would answer the second of two equal prompts without a prefill.
    flags=("--no-enable-prefix-caching",),
)
"""vLLM 0.16 with Neuron's plugin. Source: vllm-project/vllm-neuron.

The plugin knows no method but eagle; ``is_eagle3`` in the overrides makes it EAGLE3.
"""
