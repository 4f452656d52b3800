"""The view of a run, and of ledgers alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from spectap import wording
from spectap.analysis.summarise import summarise_ledgers
from spectap.analysis.summary import Answer, Summary
from spectap.record import Record
from spectap.report import caveats, cells, phrases, published, quality, verdicts, windows
from spectap.report.headline import headline
from spectap.report.results import Results
from spectap.report.view import Table, View
from spectap.text import EndpointType

ALONE: Final = "for this load alone, among all claims of the report"


def of_run(run: Results) -> View:
    """The view of a run that has been read."""
    said = headline(run.summary, run.config)
    return View(
        title=phrases.heading(run.config, run.summary),
        lead=tuple(_lead(run)),
        answers=said.answers,
        caveats=said.caveats,
        alarms=tuple(_checks(run.summary, worse=True)),
        tables=tuple(_tables(run.summary)),
        notes=run.notes,
        remarks=tuple(_remarks(run)),
    )


def of_ledgers(records: Iterable[Record]) -> View:
    """The view of ledgers without a configuration."""
    summary = summarise_ledgers(records)
    if summary.started is None or summary.ended is None:
        return View("There is no request that counts: a warm-up does not.")
    requests = sum(cell.requests for case in summary.cases for cell in case.cells)
    period = wording.period(summary.started, summary.ended)
    said = headline(summary)
    return View(
        title=f"{summary.subject}: {wording.count(requests, 'request')}, {period}",
        answers=said.answers if summary.compares else (),
        caveats=said.caveats,
        tables=tuple(_tables(summary)),
        notes=tuple(caveats.of_repetitions(summary)),
        remarks=(*case_notes(summary), *_explanations(summary)),
    )


def _lead(run: Results) -> Iterator[str]:
    load, summary = run.config.load, run.summary
    requests = f"{phrases.requests(load)} request{'' if phrases.requests(load) == '1' else 's'}"
    lengths = f"{load.mean_input_tokens} tokens in, {load.mean_output_tokens} out"
    if all(case.prompts for case in run.config.test_cases):
        lengths = f"prompts as they are, at most {load.mean_output_tokens} tokens out"
    if load.sampling.get("ignore_eos"):
        lengths += ", whatever an answer's end"
    if load.endpoint_type is EndpointType.COMPLETIONS:
        lengths += ", completed without a chat template"
    launches = f" in {load.launches} launches" if load.launches > 1 else ""
    parts = (
        f"Load: {run.driver}",
        f"{load.rounds} of {requests} per case and variant{launches}",
        phrases.arrangement(run.config),
        lengths,
    )
    yield ", ".join(filter(None, parts)) + "."
    if summary.started and summary.ended:
        yield f"Measured {wording.period(summary.started, summary.ended)}."
    if run.config.isolated:
        yield "Each variant was measured by itself, at a time and on devices of its own."


def _tables(summary: Summary) -> Iterator[tuple[Table, tuple[str, ...]]]:
    several = len(summary.loads) > 1
    verdict = {case.name: verdicts.sentences(case, summary) for case in summary.cases}
    if several:
        for case in summary.cases:
            yield cells.over_loads(case, summary), verdict[case.name]
    else:
        every = [cell for case in summary.cases for cell in case.cells]
        yield cells.overview(every, summary), tuple(chain(*verdict.values()))
    if means := verdicts.means(summary, "By class of test case"):
        yield means, ()
    if summary.windows:
        yield windows.table(summary), tuple(windows.sentences(summary))
    for table, conditions, source in published.tables(summary):
        yield table, (f"{conditions} {source}",)


def _remarks(run: Results) -> Iterator[str]:
    """Remarks of a terminal below its tables."""
    yield from case_notes(run.summary)
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
    """Each check of answers, after its test case if it has one."""
    for check in summary.correctness:
        if check.worse is worse:
            case = f"{check.test_case}: " if check.test_case else ""
            yield f"{case}{quality.sentence(check)}"


def case_notes(summary: Summary) -> Iterator[str]:
    """Each note once, after the names of all its test cases."""
    cases = defaultdict(list)
    for case in summary.cases:
        for note in caveats.of_case(case, summary):
            cases[note].append(case.name)
    yield from (f"{wording.listed(names)}: {note}" for note, names in cases.items())


def _explanations(summary: Summary) -> Iterator[str]:
    compared = [comparison for case in summary.cases for _, comparison in case.compared]
    all_cells = [cell for case in summary.cases for cell in case.cells]
    claims = [claim for each in compared for claim in (each.speed, each.cost) if claim]
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
    if any(claim.answer is Answer.UNDECIDED for claim in claims):
        yield f'"?": no difference is proven {ALONE}, though an interval may exclude it.'
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
    if verdicts.means(summary):
        yield (
            "Over several test cases: the geometric mean with its 95 % interval, of these test "
            "cases, not of prompts in general."
        )
