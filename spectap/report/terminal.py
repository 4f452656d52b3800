"""A run, or ledgers alone, as a table for the terminal: a line for each variant of a test case.

Where there are several load points, each test case has a table, with a line for each at each.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from spectap import config as configuration
from spectap import wording
from spectap.analysis.crosscheck import TOLERANCE
from spectap.analysis.summarise import summarise_ledgers
from spectap.analysis.summary import Answer, Case, Summary
from spectap.names import CONFIG
from spectap.record import Record
from spectap.report import (
    answers,
    correct,
    layout,
    loads,
    objectives,
    offline,
    prompt_sets,
    results,
    terminal_tables,
)
from spectap.report.advice import words
from spectap.report.layout import NARROW, WIDTH, wrapped
from spectap.report.results import Results


def terminal_width() -> int:
    """The width of the terminal in columns; ``WIDTH`` where the output is no terminal."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH


def render(run_dir: Path, columns: int = WIDTH) -> str:
    """The table of the run in ``run_dir``. Raises ConfigError and JournalError."""
    if configuration.read(run_dir / CONFIG).offline:
        return offline.read(run_dir).table(columns)
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
        *(line for text in heading for line in wrapped(text, width)),
        *_warnings(summary, width),
        *_without_end(body(summary, width)),
        "",
        *(line for note in notes for line in wrapped(f"* {note}", width, indent=2)),
    ]
    return layout.page(parts)


def _without_end(lines: Iterable[str]) -> list[str]:
    """The lines without blank ones at their end."""
    lines = list(lines)
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _warnings(summary: Summary, width: int) -> Iterator[str]:
    if found := correct.warnings(summary):
        yield ""
        yield "ANSWERS GOT WORSE"
        for sentence in found:
            yield from wrapped(f"! {sentence}", width, indent=2)


def _heading(run: Results) -> Iterator[str]:
    load = run.config.load
    what = "Rehearsal of " if run.summary.rehearsal else ""
    yield (
        f"{what}{run.config.experiment}: {run.summary.subject}, on {run.config.model}"
        f" at {loads.words(load.points)}"
    )
    requests = f"{loads.requests(load)} request{'' if loads.requests(load) == '1' else 's'}"
    parts = (
        f"Load: {run.driver}",
        f"{load.rounds} of {requests} per case and variant",
        loads.arrangement(run.config),
        _lengths(run),
    )
    yield ", ".join(filter(None, parts))


def _lengths(run: Results) -> str:
    load = run.config.load
    if all(case.prompts for case in run.config.test_cases):
        return f"prompts as they are, at most {load.mean_output_tokens} tokens out"
    return f"{load.mean_input_tokens} tokens in, {load.mean_output_tokens} out"


def _at_one_load(summary: Summary, width: int) -> Iterator[str]:
    """A table of all test cases, and a sentence on each."""
    yield from terminal_tables.at_one_load(summary, width)
    yield from _means(summary, width)
    yield from _verdicts(summary, width)


def _over_loads(summary: Summary, width: int) -> Iterator[str]:
    """A table for each test case, and a sentence on its ladders."""
    for case in summary.cases:
        yield ""
        yield f"{case.name}, {case.structure}" if case.structure else case.name
        # Without the blank line above it: the name of the test case stands there.
        yield from [*terminal_tables.over_loads(case, summary, width)][1:]
        for sentence in _on_loads(case):
            yield from wrapped(sentence, width, indent=2)
    if any(answers.means(summary)):
        yield ""
    yield from _means(summary, width)


def _on_loads(case: Case) -> Iterator[str]:
    yield from (ladder.sentence for ladder in case.ladders)
    on_ladders = [point for ladder in case.ladders for point in ladder.loads]
    for cell, found in case.compared:
        if cell.load not in on_ladders or not found.verdict.finding.decided:
            yield f"At {loads.words([cell.load])}: {found.verdict.sentence}"


def _means(summary: Summary, width: int) -> Iterator[str]:
    means = [*answers.means(summary)]
    labels = [
        f"{mean.variant} over {mean.of}{f' at {mean.load}' if mean.load else ''}:" for mean in means
    ]
    together = "cost of a token" if answers.priced(summary) else "tokens/s together"
    for mean, label in zip(means, labels, strict=True):
        text = f"{mean.speed} for one request, {together} {mean.cost}"
        yield from wrapped(f"{label:<{max(map(len, labels))}} {text}", width, indent=2)
    if means:
        yield ""


def _verdicts(summary: Summary, width: int) -> Iterator[str]:
    longest = max((len(wording.short(case.name)) for case in summary.cases), default=0)
    for case in summary.cases:
        label = f"{wording.short(case.name):<{longest}}  "
        said = defaultdict(list)
        for cell, comparison in case.compared:
            said[comparison.verdict.sentence].append(cell.variant)
        for sentence, variants in said.items():
            # The same sentence of several variants names none of them.
            names = f"{wording.listed([*dict.fromkeys(variants)])}: " if len(variants) > 1 else ""
            yield from wrapped(label + names + sentence, width, indent=len(label))


def _notes(run: Results) -> Iterator[str]:
    if run.advice:
        short = words.in_short(run.advice, run.config.stand_in)
        if run.advice.rehearsal:
            name = shlex.quote(run.folder.name)
            yield from (f"{one} What they show: make advise RUN={name}" for one in short)
        else:
            yield from (f"Advice: {one}" for one in short)
        if run.advice.recommendations and not run.advice.rehearsal:
            yield words.BOTH_SPEEDS
    yield from run.summary.notes
    yield from _case_notes(run.summary)
    yield from _on_answers(run.summary)
    yield from (prompt_sets.in_short(used, run.records) for used in run.summary.sets)
    yield from _checks(run)
    yield from _explanations(run.summary)
    if cost := run.config.cost:
        yield (
            f"USD: {wording.dollars(cost.usd_per_hour)} an hour ({cost.price}) "
            f"x {cost.share:g}, {cost.denominator}."
        )


def _case_notes(summary: Summary) -> Iterator[str]:
    """Each note once, after the names of all its test cases."""
    cases = defaultdict(list)
    for case in summary.cases:
        for note in case.notes:
            cases[note].append(case.name)
    yield from (f"{wording.listed(names)}: {note}" for note, names in cases.items())


def _on_answers(summary: Summary) -> Iterator[str]:
    """What the warnings do not say already."""
    for check in summary.correctness:
        if not check.worse:
            yield correct.sentence(check)


def _explanations(summary: Summary) -> Iterator[str]:
    compared = [found for case in summary.cases for _, found in case.compared]
    text = "TPOT is the true time per output token."
    if compared:
        text += (
            " The speed-up says how many times faster one whole request is than with the baseline, "
            "its first token and its queue included; decoding is that of TPOT alone."
        )
    if any(found.cost for found in compared):
        what = "The cost of a token is" if answers.priced(summary) else "The tokens/s are"
        text += f" {what} compared over all requests together."
    claims = [claim for found in compared for claim in (found.speed, found.cost) if claim]
    if any(claim.answer is Answer.UNDECIDED for claim in claims):
        text += ' "?": no difference is proven for this load alone, among all claims of the report.'
        if any(case.ladders for case in summary.cases):
            text += (
                " The sentence below a table tests the loads one after the other, and can be sure "
                "where a row is not."
            )
    yield text
    cells = [cell for case in summary.cases for cell in case.cells]
    if summary.objectives and any(cell.goodput for cell in cells):
        yield (
            "Goodput: the share of requests within every objective "
            f'({objectives.words(summary.objectives)}). "!": not every objective is kept.'
        )
    marks = "".join(map(loads.letters, cells))
    if "q" in marks:
        yield "q: requests queue there, and their waiting is measured with them."
    if "l" in marks:
        yield "l: lagged; requests were not sent at their times, so the load was not what it says."
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
