"""Llama 3, 3.1, 3.2 and 3.3, and what drafts for them.

No parser of tool calls: vLLM's for Llama wants a chat template of vLLM's examples beside it
(vLLM v0.10.1, "Tool Calling"), which these services are not given. The models are
gated.
"""

from __future__ import annotations

from typing import Final

from experiment.architecture import Architecture, Family, ModelKind
from experiment.known_models.revision import PINNED, Revision, tree

_VOCABULARY: Final = 128256
_LONG: Final = 131072


def _dense(
    layers: int,
    hidden: int,
    gib: float,
    *,
    head_dim: int = 128,
    tied: bool = False,
    max_length: int = _LONG,
) -> Architecture:
    return Architecture(
        kind=ModelKind.CAUSAL_LM,
        family=Family.LLAMA,
        vocabulary=_VOCABULARY,
        layers=layers,
        hidden=hidden,
        kv_heads=8,
        head_dim=head_dim,
        tied_embeddings=tied,
        max_length=max_length,
        checkpoint_gib=gib,
    )


def _head(
    kind: ModelKind,
    target: str,
    hidden: int,
    gib: float,
    *,
    max_length: int,
    norm_before_residual: bool | None = None,
) -> Architecture:
    return Architecture(
        kind=kind,
        family=Family.LLAMA,
        vocabulary=_VOCABULARY,
        layers=1,
        hidden=hidden,
        kv_heads=8,
        head_dim=128,
        tied_embeddings=False,
        max_length=max_length,
        checkpoint_gib=gib,
        trained_for=f"meta-llama/{target}",
        norm_before_residual=norm_before_residual,
    )


_70B: Final = _dense(80, 8192, 131.4)
_1B: Final = _dense(16, 2048, 2.3, head_dim=64, tied=True)
_3B: Final = _dense(28, 3072, 6.0, tied=True)

MODELS: Final[dict[str, Architecture]] = {
    # Of 3.3, max_length and whether the embeddings are tied were taken from 3.1: the other figures
    # and the size of the files are the same.
    "meta-llama/Llama-3.3-70B-Instruct": _70B,
    "meta-llama/Llama-3.1-70B-Instruct": _70B,
    "meta-llama/Llama-3.1-8B-Instruct": _dense(32, 4096, 15.0),
    "meta-llama/Llama-3.2-3B-Instruct": _3B,
    "meta-llama/Llama-3.2-1B-Instruct": _1B,
    "meta-llama/Llama-3.2-3B": _3B,
    "meta-llama/Llama-3.2-1B": _1B,
    # Sizes of both: those of 3.1, which has the same shapes.
    "meta-llama/Meta-Llama-3-70B-Instruct": _dense(80, 8192, 131.4, max_length=8192),
    "meta-llama/Meta-Llama-3-8B-Instruct": _dense(32, 4096, 15.0, max_length=8192),
    # SafeAILab/EAGLE has the configurations of these three as its own training's; the sizes are
    # those of the files. Without an output head.
    "yuhuili/EAGLE-LLaMA3-Instruct-70B": _head(
        ModelKind.EAGLE_HEAD, "Meta-Llama-3-70B-Instruct", 8192, 3.8, max_length=2048
    ),
    "yuhuili/EAGLE-LLaMA3-Instruct-8B": _head(
        ModelKind.EAGLE_HEAD, "Meta-Llama-3-8B-Instruct", 4096, 1.4, max_length=2048
    ),
    "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B": _head(
        ModelKind.EAGLE3_HEAD,
        "Llama-3.1-8B-Instruct",
        4096,
        0.79,
        max_length=2048,
        norm_before_residual=False,
    ),
    # Of these two no whole config.json and no size of a file was seen: the figures are the
    # target's, as in the heads of this format that were seen, and the sizes follow from them.
    "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3": _head(
        ModelKind.EAGLE3_HEAD, "Llama-3.3-70B-Instruct", 8192, 4.6, max_length=_LONG
    ),
    # Where the second has its norm was seen at 5b6cee4e; of the first it was not.
    "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3": _head(
        ModelKind.EAGLE3_HEAD,
        "Llama-3.1-8B-Instruct",
        4096,
        1.8,
        max_length=_LONG,
        norm_before_residual=True,
    ),
    # Blocks of 10: the last token, and 9 drafts. Its layers are Qwen3's. Its max_length and whether
    # it is tied were not seen; those here are the target's.
    "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat": Architecture(
        kind=ModelKind.DFLASH_DRAFT,
        family=Family.QWEN3,
        vocabulary=_VOCABULARY,
        layers=5,
        hidden=4096,
        kv_heads=8,
        head_dim=128,
        tied_embeddings=False,
        max_length=_LONG,
        checkpoint_gib=2.0,
        trained_for="meta-llama/Llama-3.1-8B-Instruct",
        drafts=9,
    ),
}

_EAGLE_70B: Final = "yuhuili/EAGLE-LLaMA3-Instruct-70B"

REVISIONS: Final[dict[str, Revision]] = {
    model: Revision(commit, PINNED)
    for model, commit in {
        "meta-llama/Llama-3.3-70B-Instruct": "6f6073b423013f6a7d4d9f39144961bfbfbc386b",
        "meta-llama/Llama-3.1-70B-Instruct": "1605565b47bb9346c5515c34102e054115b4f98b",
        "meta-llama/Llama-3.1-8B-Instruct": "0e9e39f249a16976918f6564b8830bc894c89659",
        "meta-llama/Llama-3.2-3B-Instruct": "0cb88a4f764b7a12671c53f0838cd831a0843b95",
        "meta-llama/Llama-3.2-1B-Instruct": "9213176726f574b556790deb65791e0c5aa438b6",
        "meta-llama/Llama-3.2-3B": "13afe5124825b4f3751f836b40dafda64c1ed062",
        "meta-llama/Llama-3.2-1B": "4e20de362430cd3b72f300e6b0f18e50e7166e08",
        "meta-llama/Meta-Llama-3-70B-Instruct": "50fd307e57011801c7833c87efa1984ddf2db42f",
        "meta-llama/Meta-Llama-3-8B-Instruct": "8afb486c1db24fe5011ec46dfbe5b5dccdb575c2",
        "yuhuili/EAGLE-LLaMA3-Instruct-8B": "02d97adb0cacd1a50d4af8db61f4aca424ba2531",
        "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B": "ada412b672e293d682423de84a095447bf38a637",
        "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3": (
            "42864f78d503693ae5fd317419f099ab3b7c13e4"
        ),
        "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3": (
            "f4fa34a8f803a0ba75d048d6b3dbc1ad5149e9ac"
        ),
        "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat": "d3af30def9601abdd10810aba220d692f0e803f0",
    }.items()
} | {_EAGLE_70B: tree(_EAGLE_70B, "a8bd7654cfb6a57b8cf42e45cc713ef832ef60c1")}
