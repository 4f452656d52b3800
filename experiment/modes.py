"""Tables of modes and of known models for docs/reference.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiment.known_models import KNOWN_MODELS, ModelKind
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

_MODES = (
    *("Mode", "Runtime", "Families", "Draft", "Window k", "Tokens a step", "Limits"),
    *("Prepared by", "Measured by", "Documented by"),
)
_MODELS = ("Known model", "Kind", "Family", "Trained for")


def modes() -> str:
    """Tables in Markdown: who runs a mode and how, and which models are known."""
    by_mode = [
        (f"`{mode}`", f"`{runtime.name}`", *_details(runtime, runtime.modes[mode]))
        for mode in Mode
        for runtime in RUNTIMES.values()
        if mode in runtime.modes
    ]
    models = [
        (f"`{name}`", f"`{model.kind}`", model.family, f"`{model.trained_for or '-'}`")
        for name, model in KNOWN_MODELS.items()
    ]
    return f"{_table(_MODES, by_mode)}\n{_table(_MODELS, models)}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _details(runtime: Runtime, support: ModeSupport) -> Sequence[str]:
    window = f"{support.minimum_tokens} to {support.maximum_tokens or LARGEST_WINDOW}"
    if support.draft is ModelKind.DFLASH_DRAFT:
        window = "the draft's `block_size` - 1"
    first_start = runtime.preparation is Preparation.FIRST_START
    return (
        families(support),
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
