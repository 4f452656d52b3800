"""What the generations of NeuronX Distributed Inference (NxDI) have in common.

Compile flags: neuronx-distributed-inference v0.6.10598, ``inference_demo.py``. Serve flags:
aws-neuron-sdk, NxD Inference feature guide and release notes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from experiment.architecture import Family, ModelKind
from experiment.runtimes.runtime import Mode, ModeSupport, Paths, Runtime

if TYPE_CHECKING:  # at run time variants import runtimes
    from experiment.schema import Experiment
    from experiment.variants import Variant

IMAGES: Final = "public.ecr.aws/neuron/pytorch-inference-vllm-neuronx"

ANY: Final = frozenset(Family)
LLAMA: Final = frozenset({Family.LLAMA})
"""The one family here whose class in NxDI knows an EAGLE draft (0.6 to 0.9,
``models/llama/modeling_llama.py``: ``is_eagle_draft``, ``is_eagle3``; Qwen's classes do not)."""


@dataclass(frozen=True, kw_only=True)
class NxdiMode(ModeSupport):
    """A mode of NxDI."""

    method: str | None = None
    """``method`` of ``--speculative-config``; None where the loader does not read it."""
    overrides: tuple[str, ...]
    """Keys that switch the mode on, both where it is compiled (``inference_demo`` has a flag of the
    same name for each) and where it is served. All of them are set to true: the fork sets each over
    NxDI's own configuration, and a mapping would replace an object of NxDI by something that it
    cannot read (``model_loader/neuronx_distributed.py``)."""
    kept: int = 1
    minimum_tokens: int = 2
    """NxDI verifies a window of k positions with k - 1 draft tokens: a window of 1 drafts none.

    neuronx-distributed-inference v0.6.10598, ``models/model_base.py``: ``_token_gen_forward``
    (fused) runs the draft k times, the last time for its KV cache alone, and hands the target k - 1
    drafts; ``_eagle_token_gen_forward`` runs it k - 1 times."""
    greedy_only: bool = True


@dataclass(frozen=True, kw_only=True)
class Nxdi(Runtime):
    """A generation of vLLM that runs models by way of NxDI."""

    modes: Mapping[Mode, NxdiMode]
    config_flag: str
    """Flag that carries the overrides as JSON."""
    config_key: str | None
    """Key under which that JSON holds them; None where it is the JSON itself."""
    flags: tuple[str, ...]
    """Flags that this generation needs for any model."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def artifact_parts(self, variant: Variant) -> tuple[str, ...]:
        """Without any of these a service fails with an error that does not name it."""
        return ("model.pt", "neuron_config.json", "weights")

    def compile_flags(self, variant: Variant) -> tuple[str, ...]:
        """Flags that decide what is compiled; NxDI writes them into ``neuron_config.json``.

        A service takes its configuration from there. All variants are compiled to sample greedily
        on the device and without sequence parallelism, as the article's were: the loader's defaults
        would differ between a baseline and a variant that speculates. Prefill has a batch of 1, as
        the loader's. Sharded checkpoints make a start read shards instead of sharding again, and
        avoid NxDI's failure on tied embeddings ("Cannot copy out of meta tensor").
        """
        serving, batch = variant.experiment.serving, str(variant.batch)
        shared = (
            *("--torch-dtype", "bfloat16"),
            *("--tp-degree", str(serving.tensor_parallel)),
            *("--logical-nc-config", str(serving.logical_core_size)),
            *("--batch-size", batch, "--ctx-batch-size", "1"),
            *("--tkg-batch-size", batch, "--is-continuous-batching"),
            *("--seq-len", str(serving.length), "--max-context-length", str(serving.length)),
            *("--padding-side", "right", "--enable-bucketing"),
            *("--on-device-sampling", "--top-k", "1"),
            "--save-sharded-checkpoint",
        )
        if variant.mode is None:
            return shared
        return (
            *shared,
            *("--speculation-length", str(variant.window)),
            *(f"--{key.replace('_', '-')}" for key in self.modes[variant.mode].overrides),
        )

    def compile_command(self, variant: Variant, paths: Paths) -> list[str]:
        """NxDI's ``inference_demo`` with the configuration the service will run with."""
        family = variant.experiment.models.target.known.family
        draft = f"{paths.scratch}/draft" if self.draft_command(variant, paths) else paths.draft
        return [
            *("inference_demo", "--model-type", family, "--task-type", "causal-lm", "run"),
            *("--model-path", paths.target),
            *(("--draft-model-path", draft) if draft else ()),
            *("--compiled-model-path", paths.artifact),
            *self.compile_flags(variant),
            # It wants a prompt even if it does not run one.
            *("--compile-only", "--prompt", "x"),
        ]

    def compile_environment(self, variant: Variant, paths: Paths) -> Mapping[str, str]:
        """There is no device to ask, so the environment says what to compile for."""
        return {
            "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2",
            "NEURON_LOGICAL_NC_CONFIG": str(variant.experiment.serving.logical_core_size),
            "BASE_COMPILE_WORK_DIR": f"{paths.scratch}/work/",
        }

    def draft_command(self, variant: Variant, paths: Paths) -> list[str]:
        """Makes of an EAGLE head, as published, the draft that NxDI takes.

        An EAGLE v1 head is published without an output head and gets the target's.
        """
        if paths.draft is None or variant.draft is None:
            return []
        match variant.draft.known.kind:
            case ModelKind.CAUSAL_LM:
                return []
            case ModelKind.EAGLE_HEAD:
                return ["prepare_draft.py", paths.draft, paths.target]
            case _:
                return ["prepare_draft.py", paths.draft]

    def serve_command(self, variant: Variant, paths: Paths, port: int) -> list[str]:
        """The command line of ``vllm serve``."""
        experiment = variant.experiment
        return [
            *("vllm", "serve", paths.target),
            *("--served-model-name", experiment.models.target.id),
            *("--port", str(port)),
            *("--tensor-parallel-size", str(experiment.serving.tensor_parallel)),
            *("--max-num-seqs", str(variant.batch)),
            *("--max-model-len", str(experiment.served_length)),
            *self.flags,
            *_tools(experiment),
            *self._speculation(variant, paths),
        ]

    def serve_environment(self, variant: Variant, paths: Paths) -> Mapping[str, str]:
        """Where the artifact is, and the logical cores it was compiled for."""
        return {
            **self.environment,
            "NEURON_COMPILED_ARTIFACTS": paths.artifact,
            "NEURON_LOGICAL_NC_CONFIG": str(variant.experiment.serving.logical_core_size),
        }

    def _speculation(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """Flags that say which mode the artifact is of, and add the draft model.

        The draft's context must be the target's: the published sample's README gives the draft
        2048 tokens beside a target of 1024.
        """
        if variant.mode is None:
            return ()
        support = self.modes[variant.mode]
        overrides: dict[str, Any] = dict.fromkeys(support.overrides, True)
        if self.config_key:
            overrides = {self.config_key: overrides}
        settings = {
            **({"method": support.method} if support.method else {}),
            **({"model": paths.draft} if paths.draft else {}),
            "num_speculative_tokens": variant.window,
            "max_model_len": variant.experiment.served_length,
        }
        return (
            *(self.config_flag, _compact(overrides)),
            *("--speculative-config", _compact(settings)),
        )


def _tools(experiment: Experiment) -> tuple[str, ...]:
    """Flags for calls of tools, where the prompts have some: all services get them or none."""
    parser = experiment.models.target.known.tool_parser
    if not experiment.calls_tools or parser is None:
        return ()
    return ("--enable-auto-tool-choice", "--tool-call-parser", parser)


def _compact(value: Mapping[str, Any]) -> str:
    """JSON for a command line: one line, keys in the given order."""
    return json.dumps(value, separators=(",", ":"))
