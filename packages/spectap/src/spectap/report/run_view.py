"""Makes the view of a run, or of ledgers without one."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Final

from spectap import wording
from spectap.analysis.summary import Summary
from spectap.protocol.text import EndpointType
from spectap.report import caveats, cells, headline, phrases, published, quality, windows
from spectap.report.results import Results
from spectap.report.view import Table, View

_NOTES: Final = 5
"""The most notes that a terminal shows without being asked."""
_UNPROVEN: Final = (
    '"?": not proven among all claims of the report, though its own interval may exclude 1x.'
)


def of_run(run: Results) -> View:
    notes = (*run.notes, *case_notes(run.summary))
    return View(
        title=phrases.heading(run.config, run.summary),
        lead=tuple(_lead(run)),
        answers=headline.answers(run.summary, run.config),
        caveats=tuple(headline.caveats_of(run.summary, run.config)),
        alarms=tuple(_checks(run.summary, worse=True)),
        tables=_answers(run.summary),
        notes=notes[:_NOTES],
        details=tuple(_details(run.summary)),
        remarks=(*notes[_NOTES:], *_remarks(run)),
    )


def of_ledgers(summary: Summary) -> View:
    if summary.started is None or summary.ended is None:
        return View("There is no request that counts: a warm-up does not.")
    requests = sum(cell.requests for case in summary.cases for cell in case.cells)
    notes = (*caveats.of_repetitions(summary), *case_notes(summary))
    period = wording.period(summary.started, summary.ended)
    return View(
        title=f"{summary.subject}: {wording.count(requests, 'request')}, {period}",
        answers=headline.answers(summary) if summary.compares else (),
        caveats=tuple(headline.caveats_of(summary)),
        tables=_answers(summary),
        notes=notes[:_NOTES],
        details=tuple(_details(summary)),
        remarks=(*notes[_NOTES:], *_explanations(summary)),
    )


def _lead(run: Results) -> Iterator[str]:
    config, load, summary = run.config, run.config.load, run.summary
    sizes = sorted({point.requests for point in load.points})
    sent = " to ".join(f"{size}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    arrangement = "by turns" if config.alternate else "beside each other"
    arrangement = "one after another" if config.isolated else arrangement
    lengths = f"{load.mean_input_tokens} tokens in, {load.mean_output_tokens} out"
    if all(case.prompts for case in config.test_cases):
        lengths = f"prompts as they are, at most {load.mean_output_tokens} tokens out"
    if load.sampling.get("ignore_eos"):
        lengths += ", whatever an answer's end"
    if load.endpoint_type is EndpointType.COMPLETIONS:
        lengths += ", completed without a chat template"
    launches = f" in {load.launches} launches" if load.launches > 1 else ""
    parts = (
        f"Load: {run.driver}",
        f"{load.rounds} of {sent} request{'s' * (sizes[-1] > 1)} per case and variant{launches}",
        f"variants {arrangement}" if config.variants[1:] else "",
        lengths,
    )
    yield ", ".join(filter(None, parts)) + "."
    if summary.started and summary.ended:
        yield f"Measured {wording.period(summary.started, summary.ended)}."
    if config.isolated:
        yield "Each variant was measured by itself, at a time and on devices of its own."


def _answers(summary: Summary) -> tuple[tuple[Table, tuple[str, ...]]]:
    """The table of deciding figures, with an explanation of its marks."""
    table = cells.overview(summary)
    texts = {text for group in table.groups for row in group for text in chain(*row.values)}
    doubtful = any(text.endswith("?") for text in texts)
    return ((table, (_UNPROVEN,) if doubtful else ()),)


def _details(summary: Summary) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """The tables of details: class means, windows, published figures, then every figure."""
    if summary.overall:
        yield cells.classes(summary, "By class of test case"), ()
    if summary.windows:
        yield windows.table(summary), tuple(windows.sentences(summary))
    for table, conditions, source in published.tables(summary):
        yield table, (f"{conditions} {source}",)
    for table in cells.tables(summary):
        yield table, ()
    for case in summary.cases:
        # At one load, a sentence begins with the test case.
        if texts := phrases.of_case(case, summary):
            yield Table(case.name * (len(summary.loads) > 1), (), (), ()), texts


def _remarks(run: Results) -> Iterator[str]:
    # The alarms say it of those that are worse.
    yield from _checks(run.summary, worse=False)
    yield from (f"{used.case}: {quality.prompt_set(used, run)}" for used in run.summary.sets)
    yield from quality.self_check_sentences(run)
    yield from _explanations(run.summary)
    if cost := run.config.cost:
        yield (
            f"USD: {wording.price(cost.usd_per_hour)} an hour ({cost.price_source}) "
            f"x {cost.share:g}, {cost.denominator}."
        )


def _checks(summary: Summary, *, worse: bool) -> Iterator[str]:
    for check in summary.correctness:
        if check.worse is worse:
            case = f"{check.test_case}: " if check.test_case else ""
            yield f"{case}{quality.sentence(check)}"


def case_notes(summary: Summary) -> Iterator[str]:
    """The notes on test cases, each once, with the names of all its test cases."""
    cases = defaultdict(list)
    for case in summary.cases:
        for note in caveats.of_case(case, summary):
            cases[note].append(case.name)
    for note, names in cases.items():
        yield f"{'Each of ' if names[1:] else ''}{wording.listed(names)}: {note}"


def _explanations(summary: Summary) -> Iterator[str]:
    compared = [comparison for case in summary.cases for _, comparison in case.compared]
    all_cells = [cell for case in summary.cases for cell in case.cells]
    yield "TPOT is the true time per output token."
    if summary.published:
        yield published.explanation(summary)
    if compared:
        together = "cost" if phrases.priced(summary) else "throughput"
        yield (
            "Against the baseline: speed says how many times faster one whole request is, its "
            "first token and its queue included; decoding is that of TPOT alone, "
            f"{together} that of all requests together."
        )
    if summary.objectives and any(cell.goodput for cell in all_cells):
        promised = phrases.objectives(summary.objectives)
        yield (
            f"Goodput: the share of requests within every objective ({promised}). "
            '"!": not every objective is kept.'
        )
    if any(cell.queued for cell in all_cells):
        yield (
            "queue: requests wait for others before they are served. Their waiting is in TTFT, E2E "
            "and the speed."
        )
    if any(cell.lagging for cell in all_cells):
        yield (
            "lagged: requests were sent late, so the load was another than it says. The waiting "
            "before a request was sent is in no figure."
        )
    yield from caveats.of_steps(summary)
    if summary.overall:
        yield (
            "Over several test cases: the geometric mean with its 95 % interval, of these test "
            "cases, not of prompts in general."
        )
