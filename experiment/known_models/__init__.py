"""Models whose architecture this project knows, so that a mismatched pair is refused early.

Neither vLLM nor NxDI compares the vocabularies of a target and its draft before compiling.
Figures come from each repository's ``config.json`` and its safetensors index, unless a comment says
otherwise. A module a family: each has ``MODELS`` and ``REVISIONS``.
"""

from __future__ import annotations

from typing import Final

from experiment.architecture import Architecture
from experiment.known_models import llama, qwen3, vicuna
from experiment.known_models.revision import Revision

__all__ = ["KNOWN_MODELS", "REVISIONS", "Revision"]

KNOWN_MODELS: Final[dict[str, Architecture]] = {**qwen3.MODELS, **llama.MODELS, **vicuna.MODELS}

REVISIONS: Final[dict[str, Revision]] = {
    **qwen3.REVISIONS,
    **llama.REVISIONS,
    **vicuna.REVISIONS,
}
"""The revision that the figures are of. A known model that is not here has figures, but no
revision of it was seen in full."""
