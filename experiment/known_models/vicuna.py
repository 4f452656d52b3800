"""Vicuna 7B v1.3, a Llama with published Medusa heads.

Its tokenizer has no chat template.
"""

from __future__ import annotations

from typing import Final

from experiment.architecture import Architecture, Family, ModelKind
from experiment.known_models.revision import PINNED, Revision, tree

_TARGET: Final = "lmsys/vicuna-7b-v1.3"
_HEADS: Final = "FasterDecoding/medusa-vicuna-7b-v1.3"
_VOCABULARY: Final = 32000
_HIDDEN: Final = 4096
_LENGTH: Final = 2048

MODELS: Final[dict[str, Architecture]] = {
    # Published as pytorch_model.bin in two parts, without safetensors. As many key-value heads as
    # heads.
    _TARGET: Architecture(
        kind=ModelKind.CAUSAL_LM,
        family=Family.LLAMA,
        vocabulary=_VOCABULARY,
        layers=32,
        hidden=_HIDDEN,
        kv_heads=32,
        head_dim=128,
        tied_embeddings=False,
        max_length=_LENGTH,
        checkpoint_gib=12.6,
    ),
    # The file, medusa_lm_head.pt, has five heads though its config.json says 2
    # (FasterDecoding/Medusa, issue 114). A head is a residual block and an output head: it has no
    # attention, so layers, kv_heads and head_dim stand for no cache here.
    _HEADS: Architecture(
        kind=ModelKind.MEDUSA_HEADS,
        family=Family.LLAMA,
        vocabulary=_VOCABULARY,
        layers=1,
        hidden=_HIDDEN,
        kv_heads=32,
        head_dim=128,
        tied_embeddings=False,
        max_length=_LENGTH,
        checkpoint_gib=1.4,
        trained_for=_TARGET,
        drafts=5,
    ),
}

REVISIONS: Final[dict[str, Revision]] = {
    _TARGET: Revision("236eeeab96f0dc2e463f2bebb7bb49809279c6d6", PINNED),
    _HEADS: tree(_HEADS, "82ac200bf7502419cb49a9e0adcbebe3d1d293f1"),
}
