"""Dense Qwen3, and what drafts for it.

The parser of tool calls is from Qwen's documentation of vLLM, "Function Calling"
(docs/assumptions.md).
"""

from __future__ import annotations

from typing import Final

from experiment.architecture import Architecture, Family, ModelKind
from experiment.known_models.revision import PINNED, Revision

_VOCABULARY: Final = 151936
_LENGTH: Final = 40960


def _dense(layers: int, hidden: int, gib: float, *, tied: bool) -> Architecture:
    return Architecture(
        kind=ModelKind.CAUSAL_LM,
        family=Family.QWEN3,
        vocabulary=_VOCABULARY,
        layers=layers,
        hidden=hidden,
        kv_heads=8,
        head_dim=128,
        tied_embeddings=tied,
        max_length=_LENGTH,
        checkpoint_gib=gib,
        tool_parser="hermes",
    )


def _eagle3(
    size: str, hidden: int, gib: float, *, norm_before_residual: bool | None = None
) -> Architecture:
    """A head of Red Hat's, in the format of speculators. Its one layer is Llama's."""
    return Architecture(
        kind=ModelKind.EAGLE3_HEAD,
        family=Family.LLAMA,
        vocabulary=_VOCABULARY,
        layers=1,
        hidden=hidden,
        kv_heads=8,
        head_dim=128,
        tied_embeddings=False,
        max_length=_LENGTH,
        checkpoint_gib=gib,
        trained_for=f"Qwen/Qwen3-{size}",
        norm_before_residual=norm_before_residual,
    )


def _dflash(size: str, hidden: int, gib: float, *, tied: bool) -> Architecture:
    """A draft of Z Lab's of blocks of 16: the last token, and 15 drafts in one pass."""
    return Architecture(
        kind=ModelKind.DFLASH_DRAFT,
        family=Family.QWEN3,
        vocabulary=_VOCABULARY,
        layers=5,
        hidden=hidden,
        kv_heads=8,
        head_dim=128,
        tied_embeddings=tied,
        max_length=_LENGTH,
        checkpoint_gib=gib,
        trained_for=f"Qwen/Qwen3-{size}",
        drafts=15,
    )


MODELS: Final[dict[str, Architecture]] = {
    "Qwen/Qwen3-32B": _dense(64, 5120, 61.0, tied=False),
    "Qwen/Qwen3-14B": _dense(40, 5120, 27.5, tied=False),
    "Qwen/Qwen3-8B": _dense(36, 4096, 15.3, tied=False),
    "Qwen/Qwen3-4B": _dense(36, 2560, 7.5, tied=True),
    "Qwen/Qwen3-1.7B": _dense(28, 2048, 3.8, tied=True),
    "Qwen/Qwen3-0.6B": _dense(28, 1024, 1.4, tied=True),
    "RedHatAI/Qwen3-32B-speculator.eagle3": _eagle3("32B", 5120, 2.9, norm_before_residual=True),
    # Of the next two, max_length is that of the 32B's head: their own was not seen, nor where they
    # have their norm. The size of each file agrees with the shapes to the byte.
    "RedHatAI/Qwen3-14B-speculator.eagle3": _eagle3("14B", 5120, 2.6),
    "RedHatAI/Qwen3-8B-speculator.eagle3": _eagle3("8B", 4096, 1.9),
    # Whether the embeddings are tied changes nothing: the file has neither those nor an output
    # head. Of the 8B's draft, tied was not seen.
    "z-lab/Qwen3-4B-DFlash-b16": _dflash("4B", 2560, 1.0, tied=True),
    "z-lab/Qwen3-8B-DFlash-b16": _dflash("8B", 4096, 2.0, tied=False),
}

REVISIONS: Final[dict[str, Revision]] = {
    model: Revision(commit, PINNED)
    for model, commit in {
        "Qwen/Qwen3-32B": "9216db5781bf21249d130ec9da846c4624c16137",
        "Qwen/Qwen3-14B": "40c069824f4251a91eefaf281ebe4c544efd3e18",
        "Qwen/Qwen3-8B": "b968826d9c46dd6066d109eabc6255188de91218",
        "Qwen/Qwen3-4B": "1cfa9a7208912126459214e8b04321603b3df60c",
        "Qwen/Qwen3-1.7B": "70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
        "Qwen/Qwen3-0.6B": "c1899de289a04d12100db370d81485cdf75e47ca",
        "RedHatAI/Qwen3-32B-speculator.eagle3": "dc84fe7ff1db31efa824776f49c141fc8195eb47",
        "RedHatAI/Qwen3-8B-speculator.eagle3": "08610ffa01dd9f16731fe8f627b85905b6aa51c4",
        "z-lab/Qwen3-4B-DFlash-b16": "b74e3a329c4d963783143b1e970d95b002be72bd",
        "z-lab/Qwen3-8B-DFlash-b16": "9b41424b7109f9c5413454f481b09a82b85333f4",
    }.items()
}
