"""Which mode runs on which runtime, for which families, with which known draft: docs/modes.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from experiment.known_models import KNOWN_MODELS, Architecture, ModelKind
from experiment.rules.models import mismatches
from experiment.runtimes import (
    RUNTIMES,
    Engine,
    Mode,
    ModeSupport,
    Preparation,
    Runtime,
    Workload,
    families,
)
from experiment.speculation import LARGEST_WINDOW

_DETAILS = (
    *("Mode", "Runtime", "Draft", "Window k", "Tokens a step", "Limits"),
    *("Prepared by", "Measured by", "Documented by"),
)


def modes() -> str:
    """Tables in Markdown: who runs a mode, how, and which known drafts a known target has."""
    by_mode = [
        (f"`{mode}`", *(_families(runtime.modes.get(mode)) for runtime in RUNTIMES.values()))
        for mode in Mode
    ]
    details = [
        (f"`{mode}`", f"`{runtime.name}`", *_details(runtime, runtime.modes[mode]))
        for mode in Mode
        for runtime in RUNTIMES.values()
        if mode in runtime.modes
    ]
    pairs = ("Known target", "Mode", "Runtime", "Known drafts, without their organisation")
    return "\n".join(
        [
            _table(("Mode", *(f"`{name}`" for name in RUNTIMES)), by_mode),
            _table(_DETAILS, details),
            _table(pairs, [*_pairs()]),
        ]
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _families(support: ModeSupport | None) -> str:
    return families(support) if support else "-"


def _details(runtime: Runtime, support: ModeSupport) -> Sequence[str]:
    window = f"{support.minimum_tokens} to {support.maximum_tokens or LARGEST_WINDOW}"
    if support.draft is ModelKind.DFLASH_DRAFT:
        window = "the draft's `block_size` - 1"
    first_start = runtime.preparation is Preparation.FIRST_START
    return (
        f"`{support.draft}`" if support.draft else "none",
        window,
        "up to k + 1" if support.undrafted == 0 else "up to k",
        ", ".join(_limits(runtime, support)) or "-",
        "the first start, whose cache is kept" if first_start else "a compile Job",
        _measured(runtime, support),
        f"[{support.source.rpartition('/')[2].partition('#')[0]}]({support.source})",
    )


def _limits(runtime: Runtime, support: ModeSupport) -> Iterator[str]:
    if support.workload is Workload.JOB:
        yield "batch 1"
    if support.tensor_parallel:
        yield f"`tensor_parallel` {' or '.join(map(str, support.tensor_parallel))}"
    if runtime.lengths:
        yield f"`length` a power of two, {runtime.lengths[0]} to {runtime.lengths[-1]}"


def _measured(runtime: Runtime, support: ModeSupport) -> str:
    if support.workload is Workload.JOB:
        return "`inference_demo --benchmark`, on random token ids"
    if runtime.counts_drafts:
        return "the tap; the server's counters of tokens and drafts"
    counts = "steps" if runtime.engine is Engine.V0 else "tokens"
    return f"the tap; the server's counters of {counts}, none of drafts"


def _pairs() -> Iterator[Sequence[str]]:
    """A row for each known target and its known drafts, with the modes and runtimes of those."""
    for target, architecture in KNOWN_MODELS.items():
        if architecture.kind is not ModelKind.CAUSAL_LM:
            continue
        rows: dict[tuple[str, str], list[str]] = defaultdict(list)
        for mode in Mode:
            runtimes: dict[str, list[str]] = defaultdict(list)
            for runtime in RUNTIMES.values():
                if fitting := _fitting(target, architecture, runtime, mode):
                    drafts = ", ".join(f"`{name.partition('/')[2]}`" for name in fitting)
                    runtimes[drafts].append(f"`{runtime.name}`{_unseen(runtime, fitting)}")
            for drafts, able in runtimes.items():
                rows[" and ".join(able), drafts].append(f"`{mode}`")
        for (able_runtimes, drafts), able in rows.items():
            yield f"`{target}`", ", ".join(able), able_runtimes, drafts


def _fitting(target: str, architecture: Architecture, runtime: Runtime, mode: Mode) -> list[str]:
    """The known drafts that no rule on models refuses for ``target``."""
    support = runtime.modes.get(mode)
    if support is None or architecture.family not in support.families:
        return []
    return [
        name
        for name, draft in KNOWN_MODELS.items()
        if draft.kind is support.draft
        and not (draft.norm_before_residual and not runtime.takes_norm_before_residual)
        and not any(mismatches(draft, target, architecture, one_family=runtime.one_family))
    ]


def _unseen(runtime: Runtime, drafts: Sequence[str]) -> str:
    """A condition, where nobody saw whether NxDI computes a head."""
    known = [KNOWN_MODELS[name] for name in drafts]
    heads = [draft for draft in known if draft.kind is ModelKind.EAGLE3_HEAD]
    if runtime.takes_norm_before_residual or all(h.norm_before_residual is False for h in heads):
        return ""
    return " (unless the head has `norm_before_residual`, which nobody saw)"
