"""Models whose architecture this project knows, so that a mismatched pair is refused early.

Neither vLLM nor NxDI compares the vocabularies of a target and its draft before compiling.
Figures come from each repository's ``config.json`` and safetensors index; the parser of tool calls
from Qwen's documentation of vLLM, "Function Calling" (docs/assumptions.md).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from experiment.text_types import ToolParser


class ModelKind(StrEnum):
    """What a checkpoint can be used as."""

    CAUSAL_LM = "causal-lm"
    EAGLE_HEAD = "eagle-head"
    EAGLE3_HEAD = "eagle3-head"
    DFLASH_DRAFT = "dflash-draft"


class Family(StrEnum):
    """Dense model families that ``inference_demo`` compiles."""

    LLAMA = "llama"
    QWEN2 = "qwen2"
    QWEN3 = "qwen3"


class Architecture(BaseModel):
    """The part of a model's configuration that decides what it can be paired with."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    kind: ModelKind = Field(
        ModelKind.CAUSAL_LM, description="A language model, or a head trained for one target."
    )
    family: Family = Field(description="--model-type of NxDI's inference_demo.")
    vocabulary: Annotated[int, Field(gt=0, description="vocab_size of config.json.")]
    layers: Annotated[int, Field(gt=0, description="num_hidden_layers of config.json.")]
    hidden: Annotated[int, Field(gt=0, description="hidden_size of config.json.")]
    kv_heads: Annotated[int, Field(gt=0, description="num_key_value_heads of config.json.")]
    head_dim: Annotated[int, Field(gt=0, description="head_dim of config.json.")]
    tied_embeddings: bool = Field(description="tie_word_embeddings of config.json.")
    max_length: Annotated[int, Field(gt=0, description="max_position_embeddings of config.json.")]
    checkpoint_gib: Annotated[float, Field(gt=0, description="Size of the weights, GiB.")]
    tool_parser: ToolParser | None = Field(
        None, description="vLLM's --tool-call-parser; needed where prompts have tools."
    )

    @property
    def thinks(self) -> bool:
        """Whether it thinks before it answers, unless its chat template is told not to.

        Qwen3's model cards: ``enable_thinking`` is true by default.
        """
        return self.family is Family.QWEN3


def _qwen3(layers: int, hidden: int, gib: float, *, tied: bool) -> Architecture:
    return Architecture(
        kind=ModelKind.CAUSAL_LM,
        family=Family.QWEN3,
        vocabulary=151936,
        layers=layers,
        hidden=hidden,
        kv_heads=8,
        head_dim=128,
        tied_embeddings=tied,
        max_length=40960,
        checkpoint_gib=gib,
        tool_parser="hermes",
    )


KNOWN_MODELS: Final[dict[str, Architecture]] = {
    "Qwen/Qwen3-32B": _qwen3(64, 5120, 61.0, tied=False),
    "Qwen/Qwen3-14B": _qwen3(40, 5120, 27.5, tied=False),
    "Qwen/Qwen3-8B": _qwen3(36, 4096, 15.3, tied=False),
    "Qwen/Qwen3-4B": _qwen3(36, 2560, 7.5, tied=True),
    "Qwen/Qwen3-1.7B": _qwen3(28, 2048, 3.8, tied=True),
    "Qwen/Qwen3-0.6B": _qwen3(28, 1024, 1.4, tied=True),
}
