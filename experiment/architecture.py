"""The part of a model's configuration that decides what it can be used for, and with what."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from experiment.fields import ModelId, Strict, ToolParser


class ModelKind(StrEnum):
    """What a checkpoint can be used as."""

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
    vocabulary: Annotated[int, Field(gt=0, description="vocab_size of config.json.")]
    layers: Annotated[int, Field(gt=0, description="num_hidden_layers of config.json.")]
    hidden: Annotated[int, Field(gt=0, description="hidden_size of config.json.")]
    kv_heads: Annotated[int, Field(gt=0, description="num_key_value_heads of config.json.")]
    head_dim: Annotated[int, Field(gt=0, description="head_dim of config.json.")]
    tied_embeddings: bool = Field(description="tie_word_embeddings of config.json.")
    max_length: Annotated[int, Field(gt=0, description="max_position_embeddings of config.json.")]
    checkpoint_gib: Annotated[float, Field(gt=0, description="Size of the weights, GiB.")]
    trained_for: ModelId | None = Field(
        None, description="The target that a head was trained for; null where nobody says."
    )
    drafts: Annotated[int, Field(gt=0)] | None = Field(
        None,
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

        Qwen3's model cards: ``enable_thinking`` is true by default.
        """
        return self.family is Family.QWEN3
