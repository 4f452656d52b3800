"""A run, or ledgers alone, as a table for the terminal: a line for each variant of a test case.

Where there are several load points, each test case has a table, with a line for each at each.
The columns stand in one table where they fit, otherwise in several, one below the other.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmark import metrics, wording
from benchmark.analysis.crosscheck import TOLERANCE
from benchmark.analysis.summarise import summarise_ledgers
from benchmark.analysis.summary import Answer, Case, Cell, Claim, Summary
from benchmark.record import Record
from benchmark.report import answers, layout, loads, objectives, results, tables
from benchmark.report.answers import Written
from benchmark.report.layout import Column
from benchmark.report.results import Results
from benchmark.report.tables import Group

WIDTH: Final = 120
NARROW: Final = 80

_GAP: Final = 2

_TOGETHER: Final = Group(
    "tokens/s", ("together",), lambda cell: [wording.significant(cell.tokens_per_second)]
)
_STEPS: Final = Group(
    "tokens",
    ("a step",),
    lambda cell: [f"{cell.steps.mean:.2f}" if cell.steps else wording.MISSING],
)
_ERRORS: Final = Group("", ("errors",), lambda cell: [f"{cell.errors}/{cell.requests}"])


def terminal_width() -> int:
    """The width of the terminal in columns; ``WIDTH`` where the output is no terminal."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH


def render(run_dir: Path, columns: int = WIDTH) -> str:
    """The table of the run in ``run_dir``. Raises what ``results.read`` raises."""
    return render_results(results.read(run_dir), columns)


def render_results(run: Results, columns: int = WIDTH) -> str:
    """The table of a run that has been read already. Ends with a newline.

    It is ``columns`` wide, but never wider than ``WIDTH`` nor narrower than ``NARROW``.
    """
    return _page(run.summary, _heading(run), _notes(run), columns)


def render_ledgers(records: Iterable[Record], columns: int = WIDTH) -> str:
    """The table of ledgers without a configuration, as wide as that of ``render_results``."""
    summary = summarise_ledgers(records)
    if summary.started is None or summary.ended is None:
        return "There is no request that counts: a warm-up does not.\n"
    requests = sum(cell.requests for case in summary.cases for cell in case.cells)
    period = wording.period(summary.started, summary.ended)
    heading = f"{summary.subject}: {wording.count(requests, 'request')}, {period}"
    return _page(
        summary,
        [heading],
        [*summary.notes, *_case_notes(summary), *_explanations(summary)],
        columns,
    )


def _page(summary: Summary, heading: Iterable[str], notes: Iterable[str], columns: int) -> str:
    width = max(NARROW, min(columns, WIDTH))
    body = _over_loads if len(summary.loads) > 1 else _at_one_load
    parts = [
        *(line for text in heading for line in _wrapped(text, width)),
        *body(summary, width),
        "",
        *(line for note in notes for line in _wrapped(f"* {note}", width, indent=2)),
    ]
    return "\n".join(line.rstrip() for line in parts) + "\n"


def _heading(run: Results) -> Iterator[str]:
    load = run.config.load
    what = "Rehearsal of " if run.summary.rehearsal else ""
    yield (
        f"{what}{run.config.experiment}: {run.summary.subject}, on {run.config.model} "
        f"at {loads.words(load.points)}"
    )
    requests = f"{loads.requests(load)} request{'' if loads.requests(load) == '1' else 's'}"
    yield (f"Load: {run.driver}, {load.rounds} of {requests} per case and variant, {_lengths(run)}")


def _lengths(run: Results) -> str:
    load = run.config.load
    if all(case.prompts for case in run.config.test_cases):
        return f"prompts as they are, at most {load.mean_output_tokens} tokens out"
    return f"{load.mean_input_tokens} tokens in, {load.mean_output_tokens} out"


def _at_one_load(summary: Summary, width: int) -> Iterator[str]:
    """A table of all test cases, and a sentence on each."""
    cells = [cell for case in summary.cases for cell in case.cells]
    columns = [_written(group, cells) for group in _groups(summary)]
    last = _answers(cells, answers.priced(summary))
    yield from layout.lines(_labels(summary), columns, last, _starts(summary), width)
    yield from _means(summary, width)
    yield from _verdicts(summary, width)


def _over_loads(summary: Summary, width: int) -> Iterator[str]:
    """A table for each test case, with a line for each variant at each load point."""
    for case in summary.cases:
        yield ""
        yield f"{case.name}, {case.structure}" if case.structure else case.name
        columns = [_written(group, case.cells) for group in _of_ladder(summary, case, width)]
        last = _answers(case.cells, answers.priced(summary))
        # One blank line less than between two tables of one test case.
        yield from [*layout.lines(_rungs(case), columns, last, set(), width)][1:]
        for ladder in case.ladders:
            yield from _wrapped(ladder.sentence, width)
        for cell, found in case.compared:
            if not found.verdict.finding.decided:
                at = f"At {loads.words([cell.load])}: "
                yield from _wrapped(at + found.verdict.sentence, width, indent=2)
    yield ""
    yield from _means(summary, width)


def _rungs(case: Case) -> list[Column]:
    """The load points, each at the first of its lines, and the variants."""
    points = [
        loads.row(cell.load) if number == 0 else ""
        for load in case.loads
        for number, cell in enumerate(case.at(load))
    ]
    gap = " " * _GAP
    return [
        Column(("", f"load{gap}"), tuple(point + gap for point in points)),
        Column(("", ""), tuple(wording.short(cell.variant) for cell in case.cells)),
    ]


def _of_ladder(summary: Summary, case: Case, width: int) -> Iterator[Group]:
    """The columns of one test case: fewer of them where the terminal is narrow."""
    percentiles = ("p50", "p90") if width > NARROW else ("p50",)
    for metric in (metrics.TTFT, metrics.TIME_PER_OUTPUT_TOKEN):
        yield tables.of_metric(metric, percentiles, f"{metric.short} {metric.printed}")
    yield _TOGETHER
    if width > NARROW:
        yield _STEPS
    if any(cell.goodput for cell in case.cells):
        yield Group("", ("goodput",), lambda cell: [_good(cell)])
    if any(cell.errors for cell in case.cells):
        yield _ERRORS
    if any(loads.mark(cell) for cell in case.cells):
        yield Group("", ("mark",), lambda cell: [loads.mark(cell)])


def _good(cell: Cell) -> str:
    if cell.goodput is None:
        return wording.MISSING
    return f"{100 * cell.goodput.share:.0f} %" + ("" if cell.goodput.met else "!")


def _labels(summary: Summary) -> list[Column]:
    """The names of test cases, with the structure in a second line, and those of the variants."""
    names, variants = [], []
    for case in summary.cases:
        below = f"  {case.structure}" if case.structure else ""
        names += [wording.short(case.name), below, *[""] * len(case.cells)][: len(case.cells)]
        variants += [wording.short(cell.variant) for cell in case.cells]
    # Aligned to the left, so the gap is on the right.
    gap = " " * _GAP
    return [
        Column(("", f"test case{gap}"), tuple(name + gap for name in names)),
        Column(("", ""), tuple(variants)),
    ]


def _starts(summary: Summary) -> set[int]:
    """The numbers of the lines at which a test case starts."""
    ends = [len(case.cells) for case in summary.cases]
    return {sum(ends[:number]) for number in range(len(ends))}


def _groups(summary: Summary) -> Iterator[Group]:
    for metric in metrics.METRICS:
        if metric.percentiles:
            title = f"{metric.short} {metric.printed}".strip()
            yield tables.of_metric(metric, metric.percentiles, title)
    yield _TOGETHER
    yield _STEPS
    if summary.cost_denominator is not None:
        yield Group(
            "USD per",
            ("M tokens",),
            lambda cell: [wording.dollars(cell.usd_per_million_output_tokens)],
        )
    cells = [cell for case in summary.cases for cell in case.cells]
    if any(cell.goodput for cell in cells):
        yield Group("", ("goodput",), lambda cell: [_good(cell)])
    yield _ERRORS
    if any(loads.mark(cell) for cell in cells):
        yield Group("", ("mark",), lambda cell: [loads.mark(cell)])


def _written(group: Group, cells: Sequence[Cell]) -> Column:
    lines = [group.texts(cell) for cell in cells]
    sizes = [max(map(len, texts)) + _GAP for texts in zip(group.columns, *lines, strict=True)]

    def joined(texts: Sequence[str]) -> str:
        return "".join(f"{text:>{size}}" for text, size in zip(texts, sizes, strict=True))

    width = max(sum(sizes), len(group.title) + _GAP)
    title = group.title.center(sum(sizes) - _GAP) if len(sizes) > 1 else group.title
    return Column(
        (f"{title:>{width}}", f"{joined(group.columns):>{width}}"),
        tuple(f"{joined(texts):>{width}}" for texts in lines),
    )


def _answers(cells: Sequence[Cell], priced: bool) -> list[Column]:
    """What each compared cell is against its baseline; a column for each question with answers."""
    found = [cell.comparison for cell in cells]
    gap = " " * _GAP
    columns = []
    if any(found):
        texts = [_speed(one.speed) if one else "" for one in found]
        columns.append(Column(("", f"{gap}speed-up, 95 %"), tuple(gap + text for text in texts)))
    if any(one.cost for one in found if one):
        heads = ("cost of", "a token") if priced else ("times the", "tokens/s")
        texts = [_cost(one.cost, priced) if one else "" for one in found]
        columns.append(Column((gap + heads[0], gap + heads[1]), tuple(gap + t for t in texts)))
    return columns


def _speed(claim: Claim | None) -> str:
    if claim is None:
        return "no verdict"
    written = answers.speed(claim.interval)
    return f"{_figure(claim, written):<6} {written.bounds}"


def _cost(claim: Claim | None, priced: bool) -> str:
    if claim is None:
        return f"{wording.MISSING:>5}"
    return _figure(claim, answers.cost(claim.interval, priced=priced))


def _figure(claim: Claim, written: Written) -> str:
    return f"{written.figure:>5}" + ("?" if claim.answer is Answer.UNDECIDED else "")


def _means(summary: Summary, width: int) -> Iterator[str]:
    means = [*answers.means(summary)]
    labels = [
        f"{mean.variant} over {mean.of}{f' at {mean.load}' if mean.load else ''}:" for mean in means
    ]
    together = "cost of a token" if answers.priced(summary) else "tokens/s together"
    for mean, label in zip(means, labels, strict=True):
        text = f"{mean.speed} for one request, {together} {mean.cost}"
        yield from _wrapped(f"{label:<{max(map(len, labels))}} {text}", width, indent=2)
    if means:
        yield ""


def _verdicts(summary: Summary, width: int) -> Iterator[str]:
    longest = max((len(wording.short(case.name)) for case in summary.cases), default=0)
    for case in summary.cases:
        label = f"{wording.short(case.name):<{longest}}  "
        for _, comparison in case.compared:
            yield from _wrapped(label + comparison.verdict.sentence, width, indent=len(label))


def _notes(run: Results) -> Iterator[str]:
    yield from run.summary.notes
    yield from _case_notes(run.summary)
    yield from _checks(run)
    yield from _explanations(run.summary)
    if cost := run.config.cost:
        yield (
            f"USD: {wording.dollars(cost.usd_per_hour)} an hour ({cost.price}) "
            f"x {cost.share:g}, {cost.denominator}."
        )


def _case_notes(summary: Summary) -> Iterator[str]:
    for case in summary.cases:
        yield from (f"{case.name}: {note}" for note in case.notes)


def _explanations(summary: Summary) -> Iterator[str]:
    compared = [found for case in summary.cases for _, found in case.compared]
    text = "TPOT is the true time per output token."
    if compared:
        text += " The speed-up says how many times faster one request is than with the baseline."
    if any(found.cost for found in compared):
        what = "The cost of a token is" if answers.priced(summary) else "The tokens/s are"
        text += f" {what} compared over all requests together."
    claims = [claim for found in compared for claim in (found.speed, found.cost) if claim]
    if any(claim.answer is Answer.UNDECIDED for claim in claims):
        text += ' "?": no difference can be told.'
    yield text
    cells = [cell for case in summary.cases for cell in case.cells]
    if summary.objectives and any(cell.goodput for cell in cells):
        yield (
            "Goodput: the share of requests within every objective "
            f'({objectives.words(summary.objectives)}). "!": not every objective is kept.'
        )
    if any(cell.queued for cell in cells):
        yield (
            "Queue: the load is more than the batch takes, so what is measured there is the queue."
        )
    if any(cell.schedule and cell.schedule.lagging for cell in cells):
        yield (
            "Lagged: requests were not sent at their times, so the load was another than it says."
        )
    if any(answers.means(summary)):
        yield (
            "Over several test cases: the geometric mean with its 95 % interval, of these test "
            "cases, not of prompts in general."
        )


def _checks(run: Results) -> Iterator[str]:
    if run.checks:
        figures = [figure for check in run.checks for figure in check.figures]
        agreeing = sum(figure.agrees for figure in figures)
        yield (
            f"Cross-check with the servers' own counters: {agreeing} of {len(figures)} figures "
            f"agree within {100 * TOLERANCE:g} %."
        )
    apart = [found for found in run.divergences if found.first is not None]
    if run.divergences:
        where = "; ".join(
            f"{found.case}, {found.variant}: at {found.unit} {found.first}" for found in apart
        )
        amount = f"{len(apart)} of {wording.count(len(run.divergences), 'comparison')}"
        yield f"Greedy answers differ in {amount}" + (f" ({where})." if where else ".")


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    lines = textwrap.wrap(wording.unbroken(text), width, subsequent_indent=" " * indent)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
