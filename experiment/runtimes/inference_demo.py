"""``inference_demo``: compiles models for NxDI, and runs the modes that no server serves.

Flags: neuronx-distributed-inference v0.6.10598, ``inference_demo.py``.
"""

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from experiment.runtimes.runtime import EngineConfig, ModeSupport, Paths, Workload

PROGRAM: Final = "inference_demo"

ARTIFACT: Final = ("model.pt", "neuron_config.json", "weights")
"""The files of a compiled model. Loading fails without one, and does not name it."""

PREPARATIONS: Final[Mapping[str, int]] = {"prepare_draft.py": 1, "prepare_medusa.py": 1}
"""The scripts of ``charts/scripts`` that change a draft's weights before compiling, with their
versions. Raise the number when a script writes different files: it is a part of the artifact's key.
"""

_LEVELS: Final = (
    "0 1 2 3 4 5",
    "00 01 02 03 04 05 06 07 08 09 10 11 20 30 40",
    "000 001 002 003 004 005 006 007 008 009 010 011 020 030 040 050 100 101 200 300 400",
    "0000 0001 0002 0003 0004 0005 0010 0011 0020 0030 0040 0050 0100 0101 0200 0300 0400 "
    "1000 1001 2000 3000",
)
"""The tree of candidates that Medusa's heads fill: ``medusa_mc_sim_7b_63`` (FasterDecoding/Medusa
v1.0, ``medusa_choices.py``; NxDI, ``examples/medusa_mc_sim_7b_63.json``). A node is written as its
path: for each head, the candidate's rank as one digit."""

CANDIDATES: Final = 16
"""The candidates of each head that the device returns: above the largest rank, and a multiple of 8,
for Trainium's own top-k."""


def medusa_tree(heads: int) -> list[list[int]]:
    """The paths of the nodes, without the root, level by level."""
    return [[int(rank) for rank in path] for level in _LEVELS[:heads] for path in level.split()]


def medusa_nodes(heads: int) -> int:
    """The number of nodes with the root: the positions that a step verifies."""
    return len(medusa_tree(heads)) + 1


def medusa_tree_files() -> dict[str, str]:
    """The name and the text of each tree's file, beside the scripts."""
    return {
        f"medusa-tree-{heads}.json": json.dumps(medusa_tree(heads), separators=(",", ":")) + "\n"
        for heads in range(1, len(_LEVELS) + 1)
    }


@dataclass(frozen=True, kw_only=True)
class CompiledMode(ModeSupport):
    """A mode that ``inference_demo`` compiles."""

    undrafted: int = 1
    minimum_tokens: int = 2
    """NxDI verifies a window of k positions with k - 1 draft tokens: a window of 1 drafts none.

    neuronx-distributed-inference v0.6.10598, ``models/model_base.py`` (``_token_gen_forward``,
    ``_eagle_token_gen_forward``) and ``utils/hf_adapter.py`` (``_standard_assisted_decoding``)."""
    greedy_only: bool = True
    prepared_by: str | None = None
    """The script of ``PREPARATIONS`` that turns a published draft into one that NxDI takes."""

    def shared_flags(self, config: EngineConfig) -> tuple[str, ...]:
        """The compile flags that this mode and its baseline share.

        NxDI writes them into ``neuron_config.json``, where a service finds them. All served
        variants sample greedily on the device and without sequence parallelism; by the loader's
        defaults, a baseline would differ from a speculative variant. Sharded checkpoints avoid
        NxDI's failure on tied embeddings ("Cannot copy out of meta tensor").
        """
        batch, length = str(config.batch), str(config.serving.length)
        batches = ("--ctx-batch-size", "1", "--tkg-batch-size", batch, "--is-continuous-batching")
        sampling = ("--enable-bucketing", "--on-device-sampling", "--top-k", "1")
        is_served = self.workload is Workload.SERVICE
        return (
            *("--torch-dtype", "bfloat16"),
            *("--tp-degree", str(config.serving.tensor_parallel)),
            *("--logical-nc-config", str(config.serving.logical_core_size)),
            *("--batch-size", batch, *(batches if is_served else ())),
            *("--seq-len", length, "--max-context-length", length),
            *("--padding-side", "right", *(sampling if is_served else ())),
            "--save-sharded-checkpoint",
        )

    @abstractmethod
    def own_flags(self, config: EngineConfig) -> tuple[str, ...]:
        """Flags that switch this mode on."""

    def flags(self, config: EngineConfig) -> tuple[str, ...]:
        """All flags that decide the graphs; paths do not."""
        switch = self.own_flags(config) if config.mode else ()
        return (*self.shared_flags(config), *switch)

    def further_flags(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        """The flags that decide no graph, and paths."""
        return ()

    def draft_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """The command of ``prepared_by``; empty where the draft is compiled as it is."""
        return []

    def compiled_folders(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        draft = f"{paths.scratch}/draft" if self.prepared_by else paths.draft
        return (
            *("--model-path", paths.target),
            *(("--draft-model-path", draft) if draft and paths.draft else ()),
            *("--compiled-model-path", paths.artifact),
        )

    def artifact_parts(self, config: EngineConfig) -> tuple[str, ...]:
        return ARTIFACT


@dataclass(frozen=True, kw_only=True)
class JobMode(CompiledMode):
    """A mode that ``inference_demo`` also runs, because no server does.

    It runs at batch 1 without buckets, as does its baseline: the graph that verifies Medusa's tree
    has no buckets (``model_base.py``, ``enable_medusa_speculation``).
    """

    workload: Workload = Workload.JOB

    def run_folders(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        return self.compiled_folders(config, paths)

    def program(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        return (PROGRAM,)


@dataclass(frozen=True, kw_only=True)
class VanillaMode(JobMode):
    """Target and draft are compiled separately and take turns.

    Tokens are chosen on the host: with ``--on-device-sampling`` the target returns no logits, and
    drafting needs them (``utils/hf_adapter.py``, ``_standard_assisted_decoding``).
    """

    @override
    def own_flags(self, config: EngineConfig) -> tuple[str, ...]:
        return ("--speculation-length", str(config.window))

    @override
    def compiled_folders(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        # The draft's artifact has the same file names as the target's, so a folder of its own.
        draft = ("--compiled-draft-model-path", f"{paths.artifact}/draft") if paths.draft else ()
        return (*super().compiled_folders(config, paths), *draft)

    @override
    def artifact_parts(self, config: EngineConfig) -> tuple[str, ...]:
        drafts = tuple(f"draft/{part}" for part in ARTIFACT) if config.has_draft else ()
        return (*ARTIFACT, *drafts)


@dataclass(frozen=True, kw_only=True)
class MedusaMode(JobMode):
    """Further heads on the target draft a tree, and the target verifies each of its nodes.

    The window is the number of heads, which is the tree's depth. A step yields at most one token
    more.
    """

    undrafted: int = 0
    minimum_tokens: int = 1
    maximum_tokens: int | None = len(_LEVELS)
    prepared_by: str | None = "prepare_medusa.py"

    @override
    def ahead(self, window: int) -> int:
        # A step writes each node of the tree and its root into the cache before it verifies
        # (``utils/hf_adapter.py``, ``_prepare_medusa_inputs``).
        return medusa_nodes(window)

    @override
    def shared_flags(self, config: EngineConfig) -> tuple[str, ...]:
        # Medusa needs sampling on the device (``models/model_wrapper.py``).
        return (*super().shared_flags(config), "--on-device-sampling", "--top-k", "1")

    @override
    def own_flags(self, config: EngineConfig) -> tuple[str, ...]:
        """``--global-topk`` is the number of candidates of each head that the device returns.

        ``benchmark_medusa.py`` sets ``TOPK`` of neuronx_distributed 2.26, ``medusa_utils.py``, to
        the same.
        """
        heads = config.window or 0
        return (
            *("--is-medusa", "--medusa-speculation-length", str(medusa_nodes(heads))),
            *("--num-medusa-heads", str(heads), "--global-topk", str(CANDIDATES)),
        )

    @override
    def program(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        # A script around it, since its benchmark fails in this mode.
        return ("python3", f"{paths.scripts}/benchmark_medusa.py") if config.mode else (PROGRAM,)

    @override
    def draft_command(self, config: EngineConfig, paths: Paths) -> list[str]:
        """Puts the heads beside the target, where NxDI reads them."""
        if paths.draft is None:
            return []
        return ["prepare_medusa.py", paths.draft, paths.target, str(config.window)]

    @override
    def compiled_folders(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        # The target is read from the folder that has the heads, too.
        prepared = f"{paths.scratch}/target" if paths.draft else paths.target
        return ("--model-path", prepared, "--compiled-model-path", paths.artifact)

    @override
    def run_folders(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        # The heads' weights are in the artifact.
        return ("--model-path", paths.target, "--compiled-model-path", paths.artifact)

    @override
    def further_flags(self, config: EngineConfig, paths: Paths) -> tuple[str, ...]:
        """The tree, which is read at run time, and the answer's length, which its loop counts."""
        tokens = str(config.answer_tokens)
        tree = f"{paths.scripts}/medusa-tree-{config.window}.json"
        tree_flag = ("--medusa-tree-json", tree) if config.mode else ()
        return ("--max-new-tokens", tokens, *tree_flag)
