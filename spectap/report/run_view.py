"""The view of a run, and of ledgers alone: which sections there are, and what each holds."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from spectap import metrics, wording
from spectap.analysis.crosscheck import TOLERANCE
from spectap.analysis.summarise import summarise_ledgers
from spectap.analysis.summary import Answer, Case, Summary
from spectap.config import Variant
from spectap.load_points import FEWEST_ROUNDS
from spectap.record import Record
from spectap.report import (
    advice,
    cells,
    comparisons,
    headline,
    phrases,
    quality,
)
from spectap.report.results import Results
from spectap.report.view import (
    Block,
    Entry,
    Figure,
    Fold,
    Glossary,
    Section,
    Text,
    Verdicts,
    View,
    entries,
    figures,
    section,
)

_PERCENTILES: Final = (
    "Percentiles are over requests; those of inter-chunk latency are over chunks. With fewer than "
    "100 values p99 is close to the slowest. The median of a typical round can lie a little off "
    "p50, which is over the requests of all rounds. p90 and p99 have no interval; the definitions "
    f"say why. {wording.MISSING} marks what was not measured, or what the server gave no count for."
)
_BY_CLASS: Final = "By class of test case"
_ALONE: Final = "for this load alone, among all claims of the report"


def of_run(run: Results, drawings: Sequence[Figure] = ()) -> View:
    """The view of a run that has been read. Without ``drawings`` it has no figures."""
    summary = run.summary
    text, findings = headline.headline(summary)
    return View(
        title=_title(run),
        kicker=run.config.experiment + (f" · run {summary.run}" if summary.run else ""),
        lead=tuple(_lead(run)),
        headline=text,
        findings=findings,
        advice=tuple(_advice_in_short(run)),
        alarm="Answers got worse",
        alarms=quality.worse_answers(summary),
        notes=summary.notes,
        overview=tuple(_overview(summary)),
        remarks=tuple(_remarks(run)),
        sections=tuple(_sections(run, drawings)),
        basis=tuple(_basis(run)),
        glossary=Glossary(
            metrics=metrics.METRICS,
            isolated=run.config.apart,
            several_loads=len(run.config.load.points) > 1,
            named_prompts=any(case.prompts for case in run.config.test_cases),
            concurrencies=tuple(
                point.concurrency for point in run.config.load.points if point.concurrency
            ),
            objectives=phrases.objectives(summary.objectives) if summary.objectives else "",
            fewest_rounds=FEWEST_ROUNDS,
        ),
    )


def of_ledgers(records: Iterable[Record]) -> View:
    """The view of ledgers without a configuration."""
    summary = summarise_ledgers(records)
    if summary.started is None or summary.ended is None:
        return View(title="There is no request that counts: a warm-up does not.", lead=())
    requests = sum(cell.requests for case in summary.cases for cell in case.cells)
    period = wording.period(summary.started, summary.ended)
    text, findings = headline.headline(summary)
    return View(
        title=f"{summary.subject}: {wording.count(requests, 'request')}, {period}",
        lead=(),
        headline=text if summary.compares else "",
        findings=findings,
        notes=summary.notes,
        overview=tuple(_overview(summary)),
        remarks=(*_case_notes(summary), *_explanations(summary)),
    )


def _title(run: Results) -> str:
    what = "Rehearsal of " if run.summary.rehearsal else ""
    return (
        f"{what}{run.config.experiment}: {run.summary.subject}, on {run.config.model} at "
        f"{phrases.load_points(run.config.load.points)}"
    )


def _lead(run: Results) -> Iterator[str]:
    load, summary = run.config.load, run.summary
    requests = f"{phrases.requests(load)} request{'' if phrases.requests(load) == '1' else 's'}"
    lengths = f"{load.mean_input_tokens} tokens in, {load.mean_output_tokens} out"
    if all(case.prompts for case in run.config.test_cases):
        lengths = f"prompts as they are, at most {load.mean_output_tokens} tokens out"
    parts = (
        f"Load: {run.driver}",
        f"{load.rounds} of {requests} per case and variant",
        phrases.arrangement(run.config),
        lengths,
    )
    yield ", ".join(filter(None, parts)) + "."
    if summary.started and summary.ended:
        yield f"Measured {wording.period(summary.started, summary.ended)}."
    if run.config.apart:
        yield "Each variant was measured by itself, at a time and on devices of its own."


def _advice_in_short(run: Results) -> Iterator[str]:
    if run.advice is None:
        return
    short = advice.in_short(run.advice, run.config.stand_in)
    if run.advice.rehearsal:
        name = shlex.quote(run.folder.name)
        yield from (f"{sentence} What they show: make advise RUN={name}" for sentence in short)
    else:
        yield from (f"Advice: {sentence}" for sentence in short)


def _overview(summary: Summary) -> Iterator[Section]:
    """What a terminal shows of the cells, and the sentences on them."""
    if len(summary.loads) > 1:
        for case in summary.cases:
            title = f"{case.name}, {case.structure}" if case.structure else case.name
            texts = map(Text, comparisons.sentences_over_loads(case))
            yield section("", title, [cells.overview_over_loads(case, summary), *texts])
    else:
        texts = map(Text, comparisons.sentences(summary))
        yield section("", "", [cells.overview(summary), *texts])
    if means := comparisons.means(summary):
        yield section("", _BY_CLASS, [means])


def _remarks(run: Results) -> Iterator[str]:
    """What a terminal says below its tables."""
    if run.advice and run.advice.recommendations and not run.advice.rehearsal:
        yield advice.BOTH_SPEEDS
    yield from _case_notes(run.summary)
    # The alarms say it of those that are worse.
    yield from (quality.sentence(check) for check in run.summary.correctness if not check.worse)
    yield from (quality.prompt_set_in_short(used, run) for used in run.summary.sets)
    yield from quality.checks_in_short(run)
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


def _explanations(summary: Summary) -> Iterator[str]:
    compared = [comparison for case in summary.cases for _, comparison in case.compared]
    all_cells = [cell for case in summary.cases for cell in case.cells]
    yield "TPOT is the true time per output token."
    if compared:
        yield (
            "The speed-up says how many times faster one whole request is than with the baseline, "
            "its first token and its queue included; decoding is that of TPOT alone."
        )
    if any(comparison.cost for comparison in compared):
        what = "The cost of a token is" if phrases.priced(summary) else "The tokens/s are"
        yield f"{what} compared over all requests together."
    claims = (claim for each in compared for claim in (each.speed, each.cost) if claim)
    if any(claim.answer is Answer.UNDECIDED for claim in claims):
        ladder = any(case.ladders for case in summary.cases)
        more = f" {_step_by_step('below a table')}" if ladder else ""
        yield f'"?": no difference is proven {_ALONE}.{more}'
    if summary.objectives and any(cell.goodput for cell in all_cells):
        promised = phrases.objectives(summary.objectives)
        yield (
            f"Goodput: the share of requests within every objective ({promised}). "
            '"!": not every objective is kept.'
        )
    letters = "".join(map(phrases.load_letters, all_cells))
    if "q" in letters:
        yield "q: requests queue there, and their waiting is measured with them."
    if "l" in letters:
        yield "l: lagged; requests were not sent at their times, so the load was not what it says."
    if comparisons.means(summary):
        yield (
            "Over several test cases: the geometric mean with its 95 % interval, of these test "
            "cases, not of prompts in general."
        )


def _step_by_step(where: str) -> str:
    return (
        f"The sentence {where} tests the loads one after the other, and can be sure where a row "
        "is not."
    )


def _sections(run: Results, drawings: Sequence[Figure]) -> Iterator[Section]:
    summary, several = run.summary, len(run.config.load.points) > 1
    if means := comparisons.means(summary):
        hint = (
            "The geometric mean of these test cases against their baseline, with its 95 % "
            "interval. It speaks of these test cases, not of prompts in general."
        )
        yield section("overall", _BY_CLASS, [means, Text(hint, "hint")])
    if run.advice:
        yield advice.page_section(run.advice, run.config.stand_in, drawings)
    if several:
        parts = [_over_loads(run, case, drawings) for case in summary.cases]
        hints = [Text(_bars(summary), "hint")] if summary.compares else []
        yield section("cases", "Each test case over the load", [*parts, *hints])
    elif summary.compares:
        verdicts = tuple(verdict for _, verdict in comparisons.verdicts(summary))
        yield section(
            "verdicts", "Verdict per test case", [Verdicts(verdicts), Text(_bars(summary), "hint")]
        )
    else:
        notes = [Text(f"{case.name}: {note}") for case in summary.cases for note in case.notes]
        yield section("notes", "Notes", notes)
    yield _answers(summary)
    if several:
        folds = [_at_load(run, number, drawings) for number in range(len(run.config.load.points))]
        percentiles = Text(_PERCENTILES, "hint")
        yield section("loads", "All test cases at each load point", [*folds, percentiles])
    over_all = [d for d in drawings if not (d.case or d.load or d.advice)]
    yield section("figures", "Figures", [figures(over_all)])
    if not several:
        tables = cells.tables(run)
        yield section("tables", "Tables", [*tables, Text(_PERCENTILES, "hint")])
    yield from _checks(run, several=several)
    yield section("sets", "Where the prompts come from", [entries(quality.prompt_sets(run))])


def _over_loads(run: Results, case: Case, drawings: Sequence[Figure]) -> Section:
    """One test case over all its loads."""
    verdicts = tuple(
        verdict for of, verdict in comparisons.verdicts(run.summary) if of.name == case.name
    )
    details: list[Block] = [Verdicts(verdicts)] if verdicts else []
    details.append(cells.at_each_load(case, run.summary))
    blocks = [
        *(Text(ladder.sentence) for ladder in case.ladders),
        figures([drawing for drawing in drawings if drawing.case == case.name]),
        *(Text(note, "note") for note in case.notes),
        Fold(f"{case.name} at each load point", tuple(details)),
    ]
    present = tuple(block for block in blocks if block)
    return Section(f"case-{case.name}", case.name, present, case.structure)


def _at_load(run: Results, number: int, drawings: Sequence[Figure]) -> Fold:
    """All test cases at one load point."""
    point = run.config.load.points[number]
    part = run.at(point)
    of_load = figures([d for d in drawings if d.load == point.name and not d.case])
    blocks: list[Block] = [of_load] if of_load else []
    blocks += cells.tables(part)
    if counts := quality.crosscheck(part):
        blocks += [Text("The ledger against the server's own counters", "strong"), counts]
    return Fold(f"At {phrases.load_points([point])}", tuple(blocks))


def _answers(summary: Summary) -> Section:
    sentences = [
        Entry(check.test_case or check.check, check.sentence) for check in summary.correctness
    ]
    hint = (
        "An answer is right if it has the form that its prompt asks for: JSON that can be parsed, "
        "a call of a tool that was given with arguments that fit its schema, a program that can be "
        "parsed; it is never run. An answer to an evaluation is right if lm-eval calls it correct. "
        "Only prompts count that both sides answered whole. Bold: a variant is right less often "
        "than its baseline, by more than chance among all checks of this report."
    )
    blocks = [quality.correctness(summary), entries(sentences), Text(hint, "hint")]
    return section("answers", "Are the answers still right?", blocks if sentences else ())


def _checks(run: Results, *, several: bool) -> Iterator[Section]:
    counts = quality.crosscheck(run)
    if counts:
        hint = (
            "The server's counts are vLLM's /metrics, read before and after each load, without the "
            "requests of others. Tokens are those of the answers that ended. Steps are passes of "
            "the model after the prefill; in the ledger, a step is a chunk. A server may count "
            "steps as times between two outputs, as drafts verified and, on vLLM's V0 engine, as "
            "generation tokens. Each of these counts has to agree; the one furthest from the "
            "ledger is shown. Accepted drafts are the tokens of a step beyond its first. All of "
            f"these must agree within {100 * TOLERANCE:g} %, or the run fails. The server also "
            "counts what the last step of an answer accepted beyond the answer's length, which "
            "the ledger cannot see: where the ledger shows a range, any count within it agrees. "
            "Times differ by the way from server to tap."
        )
        first: Block = Text("Both counts stand at each load point above.") if several else counts
        title = "The ledger against the server's own counters"
        yield section("crosscheck", title, [first, Text(hint, "hint")])
    if run.divergences:
        hint = (
            "After the measurement each variant and its baseline answered the same prompt, one at "
            "a time. Shown is the first difference. Verifying several tokens at once rounds "
            "differently from computing one, and that decides where two tokens are about equally "
            "likely. A difference is not a failure."
        )
        differences = entries(quality.divergences(run))
        title = "Where greedy answers differ"
        yield section("divergence", title, [differences, Text(hint, "hint")])


def _bars(summary: Summary) -> str:
    """How to read the bars of verdicts."""
    priced = phrases.priced(summary)
    text = (
        f"Speed is that of one request, {'cost' if priced else 'tokens/s'} that of all requests "
        "together, each against the baseline. To the right of the upright line is better: faster, "
        f"or more tokens {'for the same money' if priced else 'a second'}. A thin bar is a 95 % "
        "interval. The colour is that of the better variant; grey says that no difference that "
        "matters is proven"
    )
    if any(case.ladders for case in summary.cases):
        text += f" {_ALONE}. {_step_by_step('that a test case begins with')}"
    else:
        text += ", among all claims of the report."
    return f"{text} The scale is logarithmic, and the same in each row."


def _basis(run: Results) -> Iterator[Section]:
    """What the report was made of."""
    settings = [Entry(name, value) for name, value in _settings(run)]
    yield section("settings", "Settings", [entries(settings)])
    if cost := run.config.cost:
        per_hour = wording.dollars(cost.usd_per_hour * cost.share)
        text = (
            f"{wording.dollars(cost.usd_per_hour)} an hour ({cost.price}), times a share of "
            f"{cost.share:g}: {per_hour} an hour for {cost.denominator}, divided by the output "
            "tokens of an hour at "
        )
        several = len(run.config.load.points) > 1
        loads = phrases.load_points(run.config.load.points)
        text += f"{'the load that it stands beside' if several else loads}. "
        text += "A server that is less busy costs more per token."
        yield section("cost", "What the cost rests on", [Text(text)])
    text = "Everything here is derived from config.json and ledger.jsonl of this run, and "
    text += "llmperf's figures from llmperf/:"
    name = run.summary.run or run.folder.name
    again = [Text(text), Text(f"make report RUN={name}", "code")]
    yield section("redraw", "Draw it again", again)


def _settings(run: Results) -> Iterator[tuple[str, str]]:
    load = run.config.load
    yield from run.config.settings.items()
    yield from _of_load(run)
    if not all(case.prompts for case in run.config.test_cases):
        yield "Input tokens", _spread(load.mean_input_tokens, load.stddev_input_tokens)
    yield "Output tokens", _spread(load.mean_output_tokens, load.stddev_output_tokens)
    yield "Timeout", f"{load.timeout_seconds} s per case and round"
    for name, value in load.sampling.items():
        yield f"Sampling: {name}", str(value)
    for variant in run.config.variants:
        yield f"Variant {variant.name}", ", ".join(_parts(variant))
    for case in run.config.test_cases:
        yield f"Prompt of {case.name}", case.source


def _of_load(run: Results) -> Iterator[tuple[str, str]]:
    load = run.config.load
    yield "Load made by", run.driver
    if closed := [f"{point.concurrency}" for point in load.points if not point.open]:
        yield "Concurrency", f"{wording.listed(closed)}, closed loop"
    if rates := [f"{point.rate:g}" for point in load.points if point.open]:
        yield (
            "Requests a second",
            f"{wording.listed(rates)}, open loop at the times of a Poisson process, the same for "
            "all variants",
        )
    yield "Requests", f"{phrases.requests(load)} per case, variant and round; {load.rounds}"
    if arrangement := phrases.arrangement(run.config):
        yield "Measured", arrangement
    yield "Warm-up", "one wave per endpoint, left out of every figure"


def _parts(variant: Variant) -> Iterator[str]:
    """What is known of a variant."""
    yield f"compared with {variant.baseline}" if variant.baseline else "a baseline"
    for words, value in (
        ("runtime", variant.runtime),
        ("mode", variant.mode),
        ("draft", variant.draft),
        ("window", variant.window),
        ("batch", variant.batch),
        ("artifact", variant.artifact),
        ("without", variant.without),
    ):
        if value is not None:
            yield f"{words} {value}"
    yield f"at {variant.endpoint}" if variant.endpoint else "as a job"


def _spread(mean: int, deviation: int) -> str:
    return f"{mean}, standard deviation {deviation}"
