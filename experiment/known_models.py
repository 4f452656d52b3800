"""Models in an experiment file, the figures that decide how they are used, and known models."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from experiment.fields import Commit, ModelId, Strict, ToolParser

FILE: Final = Path(__file__).with_suffix(".toml")
"""The catalogue. It has the sources of its figures, and a new model is an entry there."""


class ModelKind(StrEnum):
    """Use of a checkpoint."""

    CAUSAL_LM = "causal-lm"
    EAGLE_HEAD = "eagle-head"
    EAGLE3_HEAD = "eagle3-head"
    DFLASH_DRAFT = "dflash-draft"
    MEDUSA_HEADS = "medusa-heads"


class Family(StrEnum):
    """Dense model families that ``inference_demo`` compiles: ``model_type`` of config.json."""

    LLAMA = "llama"
    QWEN2 = "qwen2"
    QWEN3 = "qwen3"


class Mode(StrEnum):
    """Ways of speculative decoding that Neuron's documentation names."""

    VANILLA = "vanilla"
    FUSED = "fused"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MEDUSA = "medusa"
    DFLASH = "dflash"


class Architecture(Strict):
    """The part of a model's configuration that decides what it can be paired with."""

    kind: ModelKind = Field(
        ModelKind.CAUSAL_LM, description="A language model, or a head trained for one target."
    )
    family: Family = Field(
        description="model_type of config.json, and --model-type of NxDI's inference_demo; of a "
        "head, the model_type of its own layers."
    )
    vocabulary: int = Field(gt=0, description="vocab_size of config.json.")
    layers: int = Field(gt=0, description="num_hidden_layers of config.json.")
    hidden: int = Field(gt=0, description="hidden_size of config.json.")
    kv_heads: int = Field(gt=0, description="num_key_value_heads of config.json.")
    head_dim: int = Field(gt=0, description="head_dim of config.json.")
    tied_embeddings: bool = Field(description="tie_word_embeddings of config.json.")
    max_length: int = Field(gt=0, description="max_position_embeddings of config.json.")
    checkpoint_gib: float = Field(gt=0, description="Size of the weights, GiB.")
    trained_for: ModelId | None = Field(
        None, description="The target that a head was trained for; null where nobody says."
    )
    drafts: int | None = Field(
        None,
        gt=0,
        description="Drafts of each step, where training fixes them: block_size - 1 of a DFlash "
        "draft, the number of Medusa heads.",
    )
    norm_before_residual: bool | None = Field(
        None,
        description="norm_before_residual of an EAGLE3 head's config.json; null where nobody says.",
    )
    tool_parser: ToolParser | None = Field(
        None, description="vLLM's --tool-call-parser; needed where prompts have tools."
    )

    @property
    def thinks(self) -> bool:
        """Whether it thinks before it answers, unless its chat template is told not to.

        In Qwen3's model cards ``enable_thinking`` is true by default.
        """
        return self.family is Family.QWEN3


_ENTRIES: Final[dict[str, dict[str, Any]]] = {
    model: group.get("all", {}) | figures
    for group in tomllib.loads(FILE.read_text(encoding="utf-8")).values()
    for model, figures in group.items()
    if model != "all"
}
REVISIONS: Final[dict[str, str]] = {
    model: figures["commit"] for model, figures in _ENTRIES.items() if "commit" in figures
}
"""The commit of the figures, where a model was seen in full."""

MIRRORS: Final[dict[str, str]] = {
    model: figures["mirror_of"] for model, figures in _ENTRIES.items() if "mirror_of" in figures
}
"""For a mirror, the model whose weights it has."""

KNOWN_MODELS: Final = {
    model: Architecture.model_validate(
        {
            key: value
            for key, value in figures.items()
            if key not in ("commit", "mirror_of", "read")
        },
        strict=False,
    )
    for model, figures in _ENTRIES.items()
}


class Model(Strict):
    """A checkpoint on the Hugging Face Hub, at one commit."""

    id: ModelId = Field(description="organisation/name")
    revision: Commit = Field(description="Commit. A branch name would move.")
    architecture: Architecture | None = Field(
        None, description="Required for a model this project does not know."
    )

    @property
    def resolved_architecture(self) -> Architecture:
        """The architecture, from the file or from the catalogue.

        Raises KeyError for an unknown model without one, which ``rules`` refuses.
        """
        return self.architecture or KNOWN_MODELS[self.id]


class Models(Strict):
    """The target and its draft. Both must share one vocabulary."""

    target: Model = Field(description="The model that is served.")
    draft: Model | None = Field(
        None, description="The model that proposes tokens for it; most modes need one."
    )
