"""Which variants differ in their window alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spectap.analysis.advice.advice import Line
from spectap.config import Config, Variant


class _Kind(NamedTuple):
    """What the variants of a line share."""

    baseline: str
    mode: str | None
    draft: str | None
    batch: int | None
    alone: str
    """The variant's name, where nobody knows its mode and its draft: no other may be like it."""


def lines(config: Config, drafts: Mapping[str, int]) -> tuple[Line, ...]:
    """The lines of a run, in the order of its variants.

    ``drafts`` has how many a step verifies, by the name of the variant; others are left out. So are
    variants whose baseline is.
    """
    found: dict[_Kind, dict[int, Variant]] = defaultdict(dict)
    for variant in config.variants:
        if variant.baseline in drafts and variant.name in drafts and variant.baseline is not None:
            unknown = variant.mode is None and variant.draft is None and variant.window is None
            kind = _Kind(
                variant.baseline,
                variant.mode,
                variant.draft,
                variant.batch,
                variant.name if unknown else "",
            )
            if _window(variant, drafts) in found[kind]:
                kind = kind._replace(alone=variant.name)
            found[kind][_window(variant, drafts)] = variant
    names = _names(list(found), [next(iter(own.values())).name for own in found.values()])
    return tuple(
        Line(
            name=name,
            mode=kind.mode,
            draft=kind.draft,
            batch=kind.batch,
            baseline=kind.baseline,
            variants=tuple((window, own[window].name) for window in sorted(own)),
            offset=max(window - drafts[variant.name] for window, variant in own.items()),
        )
        for (kind, own), name in zip(found.items(), names, strict=True)
    )


def _window(variant: Variant, drafts: Mapping[str, int]) -> int:
    """As the user writes it; where nobody said, the most tokens of a step."""
    return variant.window or drafts[variant.name] + 1


def _names(kinds: Sequence[_Kind], firsts: Sequence[str]) -> list[str]:
    """The draft, and of mode and batch what is needed to tell them apart.

    ``firsts`` are the first variants of each, to tell apart what that does not.
    """
    modes, batches = {kind.mode for kind in kinds}, {kind.batch for kind in kinds}
    names = []
    for kind in kinds:
        draft = _short(kind.draft) if kind.draft else ""
        parts = [draft or kind.mode or kind.alone or "draft"]
        if draft and kind.mode and len(modes) > 1:
            parts.append(kind.mode)
        if kind.batch and len(batches) > 1:
            parts.append(f"batch {kind.batch}")
        names.append(", ".join(parts))
    counts = Counter(names)
    return [
        f"{name} ({first})" if counts[name] > 1 else name
        for name, first in zip(names, firsts, strict=True)
    ]


def _short(draft: str) -> str:
    """``Qwen3-1.7B`` of ``Qwen/Qwen3-1.7B@revision``."""
    return draft.partition("@")[0].strip().rpartition("/")[2]
