"""Which mode runs on which runtime, for which families, with which known draft: docs/modes.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiment.known_models import KNOWN_MODELS, Architecture, ModelKind
from experiment.rules.models import mismatches
from experiment.runtimes import RUNTIMES, Engine, Mode, ModeSupport, Preparation, Runtime, Workload
from experiment.speculation import LARGEST_WINDOW


def modes() -> str:
    """Tables in Markdown: who runs a mode, how, and which known drafts a known target has."""
    return "\n".join([*_who(), "", *_how(), "", *_pairs()]) + "\n"


def _who() -> Iterator[str]:
    """A row for each mode, a column for each runtime, the families in the cells."""
    yield from _head(["Mode", *(f"`{name}`" for name in RUNTIMES)])
    for mode in Mode:
        supports = [runtime.modes.get(mode) for runtime in RUNTIMES.values()]
        yield _row([f"`{mode}`", *(_families(support) if support else "-" for support in supports)])


def _families(support: ModeSupport) -> str:
    as_job = ", as a job" if support.workload is Workload.JOB else ""
    return f"{', '.join(sorted(support.families))}{as_job}"


def _how() -> Iterator[str]:
    """A row for each mode on each runtime that runs it."""
    columns = ("Mode", "Runtime", "Draft", "Window k", "Tokens a step", "Limits")
    yield from _head([*columns, "Prepared by", "Measured by", "Documented by"])
    for mode in Mode:
        for runtime in RUNTIMES.values():
            if support := runtime.modes.get(mode):
                yield _row([f"`{mode}`", f"`{runtime.name}`", *_details(runtime, support)])


def _details(runtime: Runtime, support: ModeSupport) -> Sequence[str]:
    return (
        f"`{support.draft}`" if support.draft else "none",
        _window(support),
        "up to k + 1" if support.kept == 0 else "up to k",
        _limits(runtime, support),
        _prepared(runtime),
        _measured(runtime, support),
        f"[{support.source.rpartition('/')[2].partition('#')[0]}]({support.source})",
    )


def _window(support: ModeSupport) -> str:
    if support.draft is ModelKind.DFLASH_DRAFT:
        return "the draft's `block_size` - 1"
    return f"{support.minimum_tokens} to {support.maximum_tokens or LARGEST_WINDOW}"


def _limits(runtime: Runtime, support: ModeSupport) -> str:
    limits = []
    if support.workload is Workload.JOB:
        limits.append("batch 1")
    if support.tensor_parallel:
        limits.append(f"`tensor_parallel` {' or '.join(map(str, support.tensor_parallel))}")
    if runtime.lengths:
        limits.append(f"`length` a power of two, {runtime.lengths[0]} to {runtime.lengths[-1]}")
    return ", ".join(limits) or "-"


def _prepared(runtime: Runtime) -> str:
    if runtime.preparation is Preparation.FIRST_START:
        return "the first start, whose cache is kept"
    return "a compile Job"


def _measured(runtime: Runtime, support: ModeSupport) -> str:
    if support.workload is Workload.JOB:
        return "`inference_demo --benchmark`, on random token ids"
    if runtime.counts_drafts:
        return "the tap; the server's counters of tokens and drafts"
    counts = "steps" if runtime.engine is Engine.V0 else "tokens"
    return f"the tap; the server's counters of {counts}, none of drafts"


def _pairs() -> Iterator[str]:
    """A row for each known target and its known drafts, with the modes and runtimes of those."""
    yield from _head(
        ["Known target", "Mode", "Runtime", "Known drafts, without their organisation"]
    )
    for target, architecture in KNOWN_MODELS.items():
        if architecture.kind is not ModelKind.CAUSAL_LM:
            continue
        rows: dict[tuple[str, str], list[str]] = {}
        for mode in Mode:
            for drafts, where in _served(target, architecture, mode).items():
                rows.setdefault((" and ".join(where), drafts), []).append(f"`{mode}`")
        for (runtimes, drafts), able in rows.items():
            yield _row([f"`{target}`", ", ".join(able), runtimes, drafts])


def _served(target: str, architecture: Architecture, mode: Mode) -> dict[str, list[str]]:
    """The known drafts of ``target`` in ``mode``, each list with the runtimes that take it."""
    runtimes: dict[str, list[str]] = {}
    for runtime in RUNTIMES.values():
        if fitting := _fitting(target, architecture, runtime, mode):
            drafts = ", ".join(f"`{name.partition('/')[2]}`" for name in fitting)
            runtimes.setdefault(drafts, []).append(f"`{runtime.name}`{_unseen(runtime, fitting)}")
    return runtimes


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


def _head(columns: Sequence[str]) -> Iterator[str]:
    yield _row(columns)
    yield _row(["---"] * len(columns))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
