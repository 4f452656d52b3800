"""Conclusions: the headline, the verdict on each comparison, and means by class.

Failures, queues, lagging loads and missing verdicts are in the headline itself: they decide what
the figures are worth.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Final

from spectap import load_points, palette, wording
from spectap.analysis.summary import Answer, Case, Cell, Claim, Comparison, Ladder, Summary
from spectap.config import Config
from spectap.load_points import LoadPoint
from spectap.report import caveats, phrases
from spectap.report.sentences import verdict
from spectap.report.view import Columns, Row, Table


@dataclass(frozen=True)
class Question:
    """A question about a variant: the claim of a comparison, the crossover of a ladder."""

    field: str
    subject: str
    """The subject of the answers: ``requests faster in 2 of 3 test cases``."""
    better: str
    worse: str


SPEED: Final = Question("speed", "requests", "faster", "slower")
COST: Final = Question("cost", "cost", "lower", "higher")
TOGETHER: Final = Question("cost", "throughput", "higher", "lower")

_UNDECIDED: Final = "undecided"
_FEW_CASES: Final = 3
_SPREAD_SECONDS: Final = 600.0
"""In simulations of a neighbour that slows one side by 10 % for 1 to 10 minutes, intervals of one
test case hold in 90 to 96 % where its rounds are so far apart, and in 89 to 30 % half a minute
apart (benchmarks.servers). Of more test cases, each one's rounds are further apart by themselves.
"""


@dataclass(frozen=True)
class Reply:
    """The answer to one question about a comparison."""

    question: str
    figure: str
    colour: str
    """Role of the better variant's colour; grey where no difference is proven."""


def headline(summary: Summary, config: Config | None = None) -> tuple[str, tuple[str, ...]]:
    """The heading, and sentences below it: one for each variant where several are compared.

    ``config`` is None of ledgers alone.
    """
    cases = wording.count(len(summary.cases), "test case")
    if len(summary.loads) > 1:
        cases += f" at {len(summary.loads)} load points"
    compared: dict[str, list[Comparison]] = {}
    for case in summary.cases:
        for cell, comparison in case.compared:
            compared.setdefault(cell.variant, []).append(comparison)
    variants = [_conclusions(summary, *item) for item in compared.items()]
    below: list[str] = []
    if len(variants) == 1:
        (((first, *below), limits),) = variants
        text = "; ".join((first, *limits))
    elif variants:
        text = f"{len(variants)} variants compared in {cases}"
        below = [". ".join(chain(*parts)) + "." for parts in variants]
    else:
        text = f"{summary.subject} in {cases}"
    if not summary.complete:
        text += "; the run is not complete"
    if any(each.verdict.finding.decided for of in compared.values() for each in of):
        below += _uncovered(summary, config)
    return f"Rehearsal: {text}" if summary.rehearsal else text, tuple(below)


def _uncovered(summary: Summary, config: Config | None) -> Iterator[str]:
    """Names what no interval covers, and what to set to cover it."""
    if summary.launches == 1:
        cover = (
            " To cover it, measure a multiple of 3 rounds in 3 launches: benchmark.launches: 3, or "
            "--launches 3 of spectap measure."
        )
        yield (
            "Each server was launched once, so no interval covers what differs between two "
            f"launches.{'' if config and config.isolated else cover}"
        )
    gap, few = summary.round_gap_seconds, len(summary.cases) <= _FEW_CASES
    if few and not summary.rehearsal and gap is not None and gap < _SPREAD_SECONDS:
        minutes = 10 * (config.load.rounds.at_most - 1) if config else "MINUTES"
        yield (
            f"Rounds of a test case began {wording.duration(gap)} apart, so no interval covers "
            "what slows one side for minutes. To cover it, let rounds begin 10 minutes apart: "
            f"benchmark.spread_minutes: {minutes}, or --spread {minutes} of spectap measure."
        )


def _conclusions(
    summary: Summary, variant: str, compared: Sequence[Comparison]
) -> tuple[list[str], list[str]]:
    """Sentences on one variant, and clauses on what limits them."""
    several = len(summary.loads) > 1
    names = (variant, compared[-1].baseline)
    cells = [cell for case in summary.cases for cell in case.cells if cell.variant in names]
    limits = [*caveats.of_cells(cells)]
    lacking = sum(not comparison.verdict.finding.decided for comparison in compared)
    if several and lacking:
        limits.append(f"without a verdict: {lacking} of {len(compared)} measurements")
    ladders = [(case, ladder) for case in summary.cases if (ladder := _leading(case, variant))]
    total = wording.count(len(summary.cases), "test case")
    if several and not ladders:
        total = f"{len(compared)} measurements"
    answers = []
    for question in (SPEED, _together(summary)):
        of_ladders = [each for each in ladders if question is SPEED or not each[1].open]
        texts = [over_loads(*each, question) for each in of_ladders]
        if counts := Counter(texts if ladders else _over_cells(compared, question)):
            first, *more = (f"{answer} in {count}" for answer, count in counts.items())
            answers.append(f"{question.subject} {', '.join((f'{first} of {total}', *more))}")
    if not ladders:
        answers = ["; ".join(answers)]
    return [f"{variant}: {answer}" for answer in answers], limits


def _over_cells(compared: Sequence[Comparison], question: Question) -> list[str]:
    """Each answer, the better ones first; none where there is no such question."""
    words = {
        Answer.BETTER: question.better,
        Answer.WORSE: question.worse,
        Answer.NEGLIGIBLE: "about the same",
        Answer.UNDECIDED: _UNDECIDED,
        None: "without a verdict",
    }
    claims = [getattr(comparison, question.field) for comparison in compared]
    given = [claim.answer if claim else None for claim in claims]
    if question is not SPEED and not any(given):
        return []
    return [words[answer] for answer in words for each in given if each is answer]


def _together(summary: Summary) -> Question:
    return COST if phrases.priced(summary) else TOGETHER


def _leading(case: Case, variant: str) -> Ladder | None:
    """The ladder that a heading is about: that of the closed loops, if there is one."""
    ladders = [ladder for ladder in case.ladders if ladder.variant == variant]
    return min(ladders, key=lambda ladder: ladder.open, default=None)


def stretches(
    case: Case, ladder: Ladder, question: Question
) -> list[tuple[Answer, list[LoadPoint]]]:
    """Neighbouring loads with the same answer: the ladder's, elsewhere that of the row."""
    crossover = getattr(ladder, question.field)
    better = -math.inf if crossover.better_up_to is None else crossover.better_up_to
    worse = math.inf if crossover.worse_from is None else crossover.worse_from

    def answer(load: LoadPoint) -> Answer:
        if load.amount <= better or load.amount >= worse:
            return Answer.BETTER if load.amount <= better else Answer.WORSE
        comparison = case.cell(ladder.variant, load).comparison
        claim = getattr(comparison, question.field)
        return claim.answer if claim else Answer.UNDECIDED

    return [(answer, [*loads]) for answer, loads in groupby(ladder.judged, key=answer)]


def _turns(answers: Iterable[tuple[Answer, object]]) -> int:
    """How often it turns from better to worse or back."""
    sides = [answer for answer, _ in answers if answer in (Answer.BETTER, Answer.WORSE)]
    return sum(answer is not after for answer, after in pairwise(sides))


def over_loads(case: Case, ladder: Ladder, question: Question) -> str:
    """The answer by load: ``faster up to concurrency 4 and slower from concurrency 8``."""
    words = {
        Answer.BETTER: question.better,
        Answer.WORSE: question.worse,
        Answer.NEGLIGIBLE: "about the same",
    }
    whole = len(ladder.judged) == len(ladder.loads)
    parts = []
    for answer, loads in stretches(case, ladder, question):
        if answer is Answer.UNDECIDED:
            continue
        if len(loads) == len(ladder.judged):
            every = "at every load" if whole else "at every load that has a verdict"
            end = f"from {loads[0]}" if answer is Answer.WORSE else f"up to {loads[-1]}"
            return f"{words[answer]} {every}, {end}"
        if loads[0] == ladder.judged[0]:
            at = f"up to {loads[-1]}"
        elif loads[-1] == ladder.judged[-1]:
            at = f"from {loads[0]}"
        else:
            at = f"at {load_points.listed(loads)}"
        parts.append(f"{words[answer]} {at}")
    if not parts:
        return "without a proven crossover"
    rest = "undecided" if whole else "undecided or without a verdict"
    return wording.listed(parts) if parts[1:] else f"{parts[0]} (otherwise {rest})"


def ladder_sentence(case: Case, ladder: Ladder, summary: Summary) -> str:
    """The answer to each question, and where both variants are equal."""
    answers = []
    for question in (SPEED,) if ladder.open else (SPEED, _together(summary)):
        crossover = getattr(ladder, question.field)
        answers.append(f"{question.subject} {over_loads(case, ladder, question)}")
        if crossover.bounded and _turns(stretches(case, ladder, question)) == 1:
            # To two digits: it is an estimate between two loads.
            answers[-1] += f", equal at about {float(f'{crossover.point:.2g}'):g}"
    return f"{ladder.variant} against {ladder.baseline}: {'; '.join(answers)}."


def sentences(case: Case, summary: Summary) -> tuple[str, ...]:
    """The verdicts on one test case: over its loads, and at those that no ladder speaks for.

    Where there are several loads, they name a verdict. Variants with the same one share it.
    """
    texts = [ladder_sentence(case, ladder, summary) for ladder in case.ladders]
    proven = [ladder for ladder in case.ladders if ladder.speed.proven]
    covered = [load for ladder in proven for load in ladder.judged]
    for cell, comparison in case.compared:
        if cell.load not in covered or not comparison.verdict.finding.decided:
            at = f"At {cell.load or 'an unnamed load'}"
            subject = at if summary.loads[1:] else case.name
            texts.append(f"{subject}: {verdict(case, cell, summary)}")
    return tuple(dict.fromkeys(texts))


def replies(cell: Cell, summary: Summary) -> list[Reply]:
    """The answers on one cell that is compared; there is no claim on decoding."""
    comparison, priced = cell.comparison, phrases.priced(summary)
    if comparison is None:
        return []
    colours, decoding = palette.of(summary.variants), comparison.by_time_per_output_token

    def colour(claim: Claim | None) -> str:
        better = {Answer.BETTER: cell.variant, Answer.WORSE: comparison.baseline}
        return colours[better[claim.answer]].role if claim and claim.answer in better else "muted"

    together = comparison.cost.interval if comparison.cost else None
    cost = phrases.cost(together, priced=priced)
    return [
        Reply("speed", phrases.speed(comparison.speedup).figure, colour(comparison.speed)),
        Reply("decoding", phrases.speed(decoding).figure, "muted"),
        Reply("cost" if priced else "throughput", cost.figure, colour(comparison.cost)),
    ]


def means(summary: Summary, title: str = "") -> Table:
    """One speed-up and one cost for each variant and class that has several test cases."""
    colours, priced = palette.of(summary.variants), phrases.priced(summary)
    several = len(summary.loads) > 1
    rows = []
    for mean in summary.overall:
        name = wording.count(mean.cases, f"{mean.structure} test case".lstrip())
        load = (str(mean.load or wording.MISSING),) if several else ()
        estimates = phrases.speed(mean.speed), phrases.cost(mean.cost, priced=priced)
        values = tuple((estimate.figure, estimate.bounds) for estimate in estimates)
        if mean.speed or mean.cost:
            rows.append(Row((name, *load, mean.variant), values, colours[mean.variant].role))
    together = "cost of a token" if priced else "tokens/s of all together"
    return Table(
        title,
        ("class", *(("load",) if several else ()), "variant"),
        (Columns("speed of one request", ("", "95 %")), Columns(together, ("", "95 %"))),
        (tuple(rows),),
    )
