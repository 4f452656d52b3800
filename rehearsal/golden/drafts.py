"""What a draft costs and how well it guesses, by the size of its weights.

The article: Qwen3-0.6B drafts faster than Qwen3-1.7B, and about 60 % less of it is accepted. Only
the order and its size are known; the rules between are ours, and made for a rehearsal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from experiment.known_models import KNOWN_MODELS, ModelKind
from experiment.variants import Variant

ARTICLE_COST: Final = 0.037
"""Of Qwen3-1.7B with Qwen3-32B: with the cost of a pass, the article's window and its concurrency,
the article's speed-ups."""
_ARTICLE_SHARE: Final = (
    KNOWN_MODELS["Qwen/Qwen3-1.7B"].checkpoint_gib / KNOWN_MODELS["Qwen/Qwen3-32B"].checkpoint_gib
)

_QUALITY: Final = 0.4
"""Exponent of the size. With the article's window, 69 % fewer drafts of Qwen3-0.6B are accepted on
structured text and 50 % fewer on open-ended text."""


@dataclass(frozen=True)
class Draft:
    """A draft model, held against the article's."""

    size: float = 1.0
    """Its share of the target's weights, in that of Qwen3-1.7B in Qwen3-32B."""
    at_once: int = 1
    """Drafts that one of its passes makes."""

    @property
    def cost(self) -> float:
        """What a draft takes, in target passes: of the time in which its weights are read."""
        return ARTICLE_COST * self.size / self.at_once

    def acceptance(self, of_article_s: float) -> float:
        """The probability that a draft is accepted, where the article's has ``of_article_s``.

        A smaller draft is accepted less often, a larger one rejected less often, each by the size
        to the power of 0.4.
        """
        factor = math.pow(self.size, _QUALITY)
        return of_article_s * factor if factor <= 1 else 1 - (1 - of_article_s) / factor


def draft_of(variant: Variant) -> Draft:
    """A variant's draft. Heads are not judged by their size, and are taken for the article's.

    One whose number of drafts was fixed when it was trained makes all of them in one pass.
    """
    model = variant.draft
    if model is None or model.known.kind is not ModelKind.CAUSAL_LM:
        return Draft(at_once=(model and model.known.drafts) or 1)
    target = variant.experiment.models.target.known
    share = model.known.checkpoint_gib / target.checkpoint_gib
    return Draft(share / _ARTICLE_SHARE)
