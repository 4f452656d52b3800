"""A run as a table for the terminal: Base against SD, case by case, in 120 columns.

A narrower terminal gets two tables, one below the other, that fit into 80.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmark import wording
from benchmark.analysis.crosscheck import TOLERANCE
from benchmark.analysis.summary import Arm, Case, Percentiles
from benchmark.report import results
from benchmark.report.results import Results

WIDTH: Final = 120
NARROW: Final = 80

# One column each: what is measured, how it is summed up, and how wide it is.
_COLUMNS: Final[tuple[tuple[str, str, int], ...]] = (
    ("", "p50", 7),
    ("TPOT ms", "p90", 7),
    ("", "p99", 7),
    ("TTFT ms", "p50", 8),
    ("E2E s", "p50", 8),
    ("tokens/s", "together", 9),
    ("tokens", "per step", 9),
    ("USD per", "M tokens", 9),
    ("", "errors", 9),
)
_VARIANT: Final = 5

# The columns of one table, and of the first of two. The speed-up stands at the end of either.
_WHOLE: Final = slice(None)
_FIRST, _SECOND = slice(4), slice(4, None)


def terminal_width() -> int:
    """The columns of the terminal that standard output is; ``WIDTH`` where it is none."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH


def render(run_dir: Path, columns: int = WIDTH) -> str:
    """The table of the run in ``run_dir``. Raises what ``results.read`` raises."""
    return render_results(results.read(run_dir), columns)


def render_results(run: Results, columns: int = WIDTH) -> str:
    """The table of a run that has been read already, for so many columns. Ends with a newline.

    It is never wider than ``WIDTH`` nor narrower than ``NARROW``.
    """
    width = max(NARROW, min(columns, WIDTH))
    tables = [_WHOLE] if width == WIDTH else [_FIRST, _SECOND]
    parts = (
        *_heading(run, width),
        *(line for table in tables for line in _table(run, table, width)),
        *_verdicts(run, width),
        "",
        *_notes(run, width),
    )
    return "\n".join(line.rstrip() for line in parts) + "\n"


def _heading(run: Results, width: int) -> Iterator[str]:
    load = run.config.load
    yield from _wrapped(
        f"{run.config.experiment}: Base against SD, {run.config.model} "
        f"at concurrency {load.concurrency}",
        width,
    )
    yield from _wrapped(
        f"Load: {run.driver}, {wording.count(load.rounds, 'round')} of "
        f"{wording.count(load.requests, 'request')} per case and variant, "
        f"{load.mean_input_tokens} tokens in, {load.mean_output_tokens} out",
        width,
    )


def _table(run: Results, columns: slice, width: int) -> Iterator[str]:
    rule = "─" * width
    yield ""
    yield from _column_heads(columns)
    yield rule
    for index, case in enumerate(run.summary.cases):
        if index:
            yield ""
        yield from _case(case, columns)
    yield rule


def _column_heads(columns: slice) -> Iterator[str]:
    measured, summed_up, _ = zip(*_COLUMNS, strict=True)
    yield _row("", "", measured, "", columns)
    yield _row("test case", "", summed_up, "speed-up, 95 %", columns)


def _case(case: Case, columns: slice) -> Iterator[str]:
    speedup = case.speedup
    said = f"{wording.times(speedup):>5}  {wording.span(speedup)}" if speedup else ""
    first = said if case.verdict.finding.decided else "no verdict"
    yield _row(wording.short(case.name), case.base.tally.variant, _cells(case.base), first, columns)
    finding = case.verdict.finding.value
    speculative = case.speculative
    yield _row(
        f"  {case.structure}", speculative.tally.variant, _cells(speculative), finding, columns
    )


def _cells(arm: Arm) -> list[str]:
    tally = arm.tally
    return [
        *_three(arm.time_per_output_token),
        wording.milliseconds(_median(arm.ttft)),
        wording.significant(_median(arm.end_to_end)),
        wording.significant(arm.tokens_per_second),
        f"{arm.steps.mean:.2f}" if arm.steps else wording.MISSING,
        wording.dollars(arm.usd_per_million_output_tokens),
        f"{tally.errors}/{tally.requests}",
    ]


def _three(sample: Percentiles | None) -> tuple[str, str, str]:
    if sample is None:
        return (wording.MISSING,) * 3
    p50, p90, p99 = map(wording.milliseconds, (sample.p50, sample.p90, sample.p99))
    return p50, p90, p99


def _median(sample: Percentiles | None) -> float | None:
    return None if sample is None else sample.p50


def _row(name: str, variant: str, cells: Sequence[str], speedup: str, columns: slice) -> str:
    widths = (width for _, _, width in _COLUMNS[columns])
    figures = "".join(
        f"{cell:>{width}}" for cell, width in zip(cells[columns], widths, strict=True)
    )
    last = "" if columns == _SECOND else speedup
    return f"{name:<{wording.NAME_WIDTH}} {variant:<{_VARIANT}}{figures}  {last}"


def _verdicts(run: Results, width: int) -> Iterator[str]:
    for case in run.summary.cases:
        label = f"{wording.short(case.name):<{wording.NAME_WIDTH}}  "
        yield from _wrapped(label + case.verdict.sentence, width, indent=len(label))


def _notes(run: Results, width: int) -> Iterator[str]:
    cost = run.config.cost
    notes = [
        *run.summary.notes,
        *(f"{case.name}: {note}" for case in run.summary.cases for note in case.notes),
        *_checks(run),
        "TPOT is the true time per output token; the speed-up says how many times faster SD is.",
        f"USD: {wording.dollars(cost.usd_per_hour)} an hour ({cost.price}) "
        f"x {cost.share:g}, {cost.denominator}.",
    ]
    for note in notes:
        yield from _wrapped(f"* {note}", width, indent=2)


def _checks(run: Results) -> Iterator[str]:
    if run.checks:
        figures = [figure for check in run.checks for figure in check.figures]
        agreeing = sum(figure.agrees for figure in figures)
        yield (
            f"Cross-check with the servers' own counters: {agreeing} of {len(figures)} figures "
            f"agree within {TOLERANCE:.0%}."
        )
    apart = [found for found in run.divergences if found.first is not None]
    if run.divergences:
        where = ", ".join(f"{found.case} at {found.unit} {found.first}" for found in apart)
        yield f"Greedy answers part in {len(apart)} of {len(run.divergences)} cases" + (
            f": {where}." if where else "."
        )


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * indent)
