"""Models whose architecture this project knows, so that a mismatched pair is refused early.

Neither vLLM nor NxDI compares the vocabularies of a target and its draft before compiling.
Figures come from each repository's ``config.json`` and safetensors index; the parser of tool calls
from Qwen's documentation of vLLM, "Function Calling" (docs/assumptions.md).
"""

from __future__ import annotations

from typing import Final

from experiment.architecture import Architecture, Family, ModelKind


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
