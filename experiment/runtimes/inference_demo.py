"""``inference_demo``, which compiles models for NxDI and runs the modes that no server serves.

Flags: neuronx-distributed-inference v0.6.10598, ``inference_demo.py``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from experiment.runtimes import medusa_tree
from experiment.runtimes._variant import Variant
from experiment.runtimes.runtime import ModeSupport, Paths, Workload

PROGRAM: Final = "inference_demo"

ARTIFACT: Final = ("model.pt", "neuron_config.json", "weights")
"""What a compiled model consists of. Without any of these, loading fails with an error that does
not name it."""

PREPARATIONS: Final = MappingProxyType({"prepare_draft.py": 1, "prepare_medusa.py": 1})
"""Scripts of ``charts/scripts`` that change a draft's weights before they are compiled. Raise the
number where a script writes other files than before: it is a part of the artifact's key."""


@dataclass(frozen=True, kw_only=True)
class CompiledMode(ModeSupport):
    """A mode that ``inference_demo`` compiles."""

    kept: int = 1
    minimum_tokens: int = 2
    """NxDI verifies a window of k positions with k - 1 draft tokens: a window of 1 drafts none.

    neuronx-distributed-inference v0.6.10598, ``models/model_base.py``: ``_token_gen_forward``
    (fused) runs the draft k times, the last time for its KV cache alone, and hands the target k - 1
    drafts; ``_eagle_token_gen_forward`` runs it k - 1 times. ``utils/hf_adapter.py``,
    ``_standard_assisted_decoding`` (vanilla): as fused."""
    greedy_only: bool = True

    def prepared_by(self, variant: Variant) -> str | None:
        """The script that makes of a draft, as published, what NxDI takes; None without one."""
        return None

    @abstractmethod
    def shared_flags(self, variant: Variant) -> tuple[str, ...]:
        """Flags that this mode and its baseline are both compiled with."""

    @abstractmethod
    def own_flags(self, variant: Variant) -> tuple[str, ...]:
        """Flags that switch this mode on."""

    def flags(self, variant: Variant) -> tuple[str, ...]:
        """Everything that decides the graphs of ``variant``; paths do not."""
        own = self.own_flags(variant) if variant.mode else ()
        return (*self.shared_flags(variant), *own)

    def draft_command(self, variant: Variant, paths: Paths) -> list[str]:
        """Read as ``Runtime.draft_command``."""
        return []

    def draft_version(self, variant: Variant) -> tuple[str, ...]:
        """Read as ``Runtime.draft_version``."""
        script = self.prepared_by(variant)
        return (f"{script}={PREPARATIONS[script]}",) if script else ()

    def compiled_folders(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """Flags that say what is compiled, and where to."""
        draft = f"{paths.scratch}/draft" if self.draft_command(variant, paths) else paths.draft
        return (
            *("--model-path", paths.target),
            *(("--draft-model-path", draft) if draft else ()),
            *("--compiled-model-path", paths.artifact),
        )

    def further_flags(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """Flags that decide no graph, or are paths."""
        return ()

    def compile_command(self, variant: Variant, paths: Paths) -> list[str]:
        """Compiles ``variant``, and loads nothing."""
        return [
            *_run(variant),
            *self.compiled_folders(variant, paths),
            *self.flags(variant),
            *self.further_flags(variant, paths),
            # It wants a prompt even if it does not run one.
            *("--compile-only", "--prompt", "x"),
        ]

    def artifact_parts(self, variant: Variant) -> tuple[str, ...]:
        """Read as ``Runtime.artifact_parts``."""
        return ARTIFACT


@dataclass(frozen=True, kw_only=True)
class JobMode(CompiledMode):
    """A mode that ``inference_demo`` also runs, since no server does.

    At batch 1 and without buckets: what verifies Medusa's tree has none (``model_base.py``,
    ``enable_medusa_speculation``), so a baseline with buckets would have the advantage. A prompt is
    therefore padded to the whole length, on both sides.
    """

    workload: Workload = Workload.JOB

    def shared_flags(self, variant: Variant) -> tuple[str, ...]:
        """Read as ``CompiledMode.shared_flags``."""
        serving = variant.experiment.serving
        return (
            *("--torch-dtype", "bfloat16"),
            *("--tp-degree", str(serving.tensor_parallel)),
            *("--logical-nc-config", str(serving.logical_core_size)),
            *("--batch-size", str(variant.batch)),
            *("--seq-len", str(serving.length), "--max-context-length", str(serving.length)),
            *("--padding-side", "right"),
            "--save-sharded-checkpoint",
        )

    def run_folders(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """Flags that say what is run. The weights are the artifact's."""
        return self.compiled_folders(variant, paths)

    def program(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """What runs ``variant``."""
        return (PROGRAM,)

    def generate_command(self, variant: Variant, paths: Paths) -> list[str]:
        """Measures what was compiled. ``generate.sh`` adds where the report goes.

        All flags again: it reads its configuration from the command line, and does not look whether
        that is the artifact's (``run_inference``).
        """
        return [
            *self.program(variant, paths),
            *_run(variant)[1:],
            *self.run_folders(variant, paths),
            *self.flags(variant),
            *self.further_flags(variant, paths),
            *("--skip-compile", "--prompt", "x"),
            "--benchmark",
        ]


@dataclass(frozen=True, kw_only=True)
class VanillaMode(JobMode):
    """Target and draft are compiled apart, and take turns.

    The tokens are chosen on the host, on both sides: with ``--on-device-sampling`` the target hands
    out no logits, which drafting needs (``utils/hf_adapter.py``, ``_standard_assisted_decoding``).
    """

    def own_flags(self, variant: Variant) -> tuple[str, ...]:
        """Read as ``CompiledMode.own_flags``."""
        return ("--speculation-length", str(variant.window))

    def compiled_folders(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """The draft's artifact has the same file names as the target's, so a folder of its own."""
        folders = super().compiled_folders(variant, paths)
        draft = ("--compiled-draft-model-path", f"{paths.artifact}/draft") if paths.draft else ()
        return (*folders, *draft)

    def artifact_parts(self, variant: Variant) -> tuple[str, ...]:
        """Those of the target and, but for a baseline, of the draft."""
        drafts = tuple(f"draft/{part}" for part in ARTIFACT) if variant.draft else ()
        return (*ARTIFACT, *drafts)


@dataclass(frozen=True, kw_only=True)
class MedusaMode(JobMode):
    """Heads beside the target's own draft a tree, of which the target verifies each node.

    The window is the number of heads, which is the depth of the tree: a step yields one token more.
    """

    kept: int = 0
    minimum_tokens: int = 1
    maximum_tokens: int | None = medusa_tree.DEPTH

    def ahead(self, window: int) -> int:
        """A step writes each node of the tree and its root into the cache before it verifies.

        ``utils/hf_adapter.py``, ``_prepare_medusa_inputs``.
        """
        return medusa_tree.nodes(window)

    def shared_flags(self, variant: Variant) -> tuple[str, ...]:
        """Medusa needs sampling on the device (``models/model_wrapper.py``)."""
        return (*super().shared_flags(variant), "--on-device-sampling", "--top-k", "1")

    def own_flags(self, variant: Variant) -> tuple[str, ...]:
        """The length is that of the tree and its root, exactly.

        ``--global-topk`` is how many candidates of each head the device hands out. The code that
        fills the tree takes it to be ``TOPK`` of neuronx_distributed 2.26, ``medusa_utils.py``:
        ``benchmark_medusa.py`` sets that to this.
        """
        heads = variant.window or 0
        return (
            *("--is-medusa", "--medusa-speculation-length", str(medusa_tree.nodes(heads))),
            *("--num-medusa-heads", str(heads)),
            *("--global-topk", str(medusa_tree.CANDIDATES)),
        )

    def program(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """A script around it, since its benchmark fails in this mode; of a baseline, itself."""
        script = f"{paths.scripts}/benchmark_medusa.py"
        return ("python3", script) if variant.mode else super().program(variant, paths)

    def prepared_by(self, variant: Variant) -> str | None:
        """Read as ``CompiledMode.prepared_by``."""
        return "prepare_medusa.py" if variant.draft else None

    def draft_command(self, variant: Variant, paths: Paths) -> list[str]:
        """Puts the heads beside the target, where NxDI reads them."""
        script = self.prepared_by(variant)
        if script is None or paths.draft is None:
            return []
        return [script, paths.draft, paths.target, str(variant.window)]

    def compiled_folders(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """The target is read from the folder that has the heads, too."""
        prepared = f"{paths.scratch}/target" if paths.draft else paths.target
        return ("--model-path", prepared, "--compiled-model-path", paths.artifact)

    def run_folders(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """The heads' weights are in the artifact."""
        return ("--model-path", paths.target, "--compiled-model-path", paths.artifact)

    def further_flags(self, variant: Variant, paths: Paths) -> tuple[str, ...]:
        """The tree, which is read at run time; the tokens of an answer, which its loop counts.

        The tree is a file to ``inference_demo`` even where it only compiles.
        """
        tokens = str(variant.experiment.benchmark.mean_output_tokens)
        tree = f"{paths.scripts}/{medusa_tree.file_name(variant.window or 0)}"
        own = ("--medusa-tree-json", tree) if variant.mode else ()
        return ("--max-new-tokens", tokens, *own)


def _run(variant: Variant) -> tuple[str, ...]:
    family = variant.experiment.models.target.known.family
    return (PROGRAM, "--model-type", family, "--task-type", "causal-lm", "run")
