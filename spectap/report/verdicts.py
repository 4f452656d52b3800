"""What is concluded: the headline, the verdict on each comparison, and means by class.

Failures, queues, lagging loads and missing verdicts are in the headline itself: they decide what
the figures are worth.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

from spectap import palette, wording
from spectap.analysis.comparison import cautions, decoding
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Answer, Case, Cell, Claim, Comparison, Ladder, Summary
from spectap.report import phrases
from spectap.report.phrases import Estimate
from spectap.report.view import Columns, Row, Table

_MUTED: Final = "muted"


@dataclass(frozen=True)
class Question:
    """What is asked of a variant, and how it is answered."""

    field: str
    """Which claim of a comparison, and which crossover of a ladder, has the answer."""
    verb: str
    subject: str
    """What stands before counts of answers: ``requests faster in 2 of 3 test cases``."""
    better: str
    worse: str

    def answer(self, of: Comparison | Ladder) -> Any:
        """The claim of a comparison; the crossover of a ladder."""
        return getattr(of, self.field)


SPEED: Final = Question("speed", "answers requests", "requests", "faster", "slower")
COST: Final = Question("cost", "costs", "cost", "less", "more")
TOGETHER: Final = Question("cost", "gets", "all together", "more tokens/s", "fewer tokens/s")


_OVER_LOADS: Final = {
    (True, True): (
        "{of.better} up to {up_to:g} {unit} and {of.worse} from {from_:g}",
        "{of.better} at low loads and {of.worse} at high ones",
    ),
    (True, False): (
        "{of.better} up to {up_to:g} {unit}; above, that is undecided",
        "{of.better} at low loads; above, that is undecided",
    ),
    (False, True): (
        "{of.worse} from {from_:g} {unit}; below, that is undecided",
        "{of.worse} at high loads; below, that is undecided",
    ),
    (False, False): ("{of.better} up to a load that is undecided",) * 2,
}
"""By whether there is a load up to which it is better, and one from which on it is worse: what is
said with these loads, and without."""


@dataclass(frozen=True)
class Bar:
    """An interval on a logarithmic scale, in percent of its width; ``unity`` is where 1x is."""

    low: float
    point: float
    high: float
    unity: float


@dataclass(frozen=True)
class Reply:
    """The answer to one question about a comparison. The bar is None where there is no answer."""

    question: str
    figure: str = wording.MISSING
    bar: Bar | None = None
    colour: str = _MUTED
    """Role of the better variant's colour."""


def headline(summary: Summary) -> tuple[str, tuple[str, ...]]:
    """The heading, and sentences below it: one for each variant where several are compared."""
    cases = wording.count(len(summary.cases), "test case")
    if len(summary.loads) > 1:
        cases += f" at {len(summary.loads)} load points"
    compared: dict[str, list[Comparison]] = {}
    for case in summary.cases:
        for cell, comparison in case.compared:
            compared.setdefault(cell.variant, []).append(comparison)
    variants = [_conclusions(summary, *item) for item in compared.items()]
    below: tuple[str, ...] = ()
    if len(variants) == 1:
        (((first, *more), limits, explanations),) = variants
        text, below = "; ".join((first, *limits)), (*explanations, *more)
    elif variants:
        text = f"{len(variants)} variants compared in {cases}"
        below = tuple(". ".join(chain(*parts)) + "." for parts in variants)
    else:
        text = f"{summary.subject} in {cases}"
    return f"Rehearsal: {text}" if summary.rehearsal else text, below


def _conclusions(
    summary: Summary, variant: str, compared: Sequence[Comparison]
) -> tuple[list[str], list[str], list[str]]:
    """Sentences on one variant, clauses on what limits them, and those that explain them."""
    several = len(summary.loads) > 1
    names = (variant, compared[-1].baseline)
    cells = [cell for case in summary.cases for cell in case.cells if cell.variant in names]
    limits = [*cautions(cells, at=several)]
    lacking = sum(not comparison.verdict.finding.decided for comparison in compared)
    if several and lacking:
        limits.append(f"{lacking} of {len(compared)} measurements have no verdict")
    together = COST if phrases.priced(summary) else TOGETHER
    ladders = [ladder for case in summary.cases if (ladder := leading(case, variant))]
    if several and ladders:
        questions = [
            (SPEED, ladders),
            (together, [ladder for ladder in ladders if not ladder.open]),
        ]
        sentences = [
            f"{variant} {_over_test_cases(question, of, len(summary.cases))}"
            for question, of in questions
            if of
        ]
    else:
        sentences = [_over_cells(summary, variant, compared, together)]
    return sentences, limits, [*decoding(cells, at=several)]


def _over_cells(
    summary: Summary, variant: str, compared: Sequence[Comparison], together: Question
) -> str:
    """How often each answer is given; at one load point, to a test case."""
    total = wording.count(len(summary.cases), "test case")
    if len(summary.loads) > 1:
        total = f"{len(summary.cases) * len(summary.loads)} measurements"
    if not any(comparison.speed for comparison in compared):
        return f"{variant} has no verdict in {len(compared)} of {total}"
    text = f"{variant}: {SPEED.subject} {_counted(compared, SPEED, f' of {total}')}"
    if any(comparison.cost for comparison in compared):
        text += f"; {together.subject} {_counted(compared, together)}"
    return text


def _counted(compared: Iterable[Comparison], question: Question, total: str = "") -> str:
    """``faster in 2 of 3 test cases, undecided in 1``; the first one with the ``total``."""
    claims = map(question.answer, compared)
    counts = Counter(claim.answer if claim else None for claim in claims)
    words = {
        Answer.BETTER: question.better,
        Answer.WORSE: question.worse,
        Answer.NEGLIGIBLE: "about the same",
        Answer.UNDECIDED: "undecided",
        None: "without a verdict",
    }
    first, *further = (
        f"{word} in {counts[answer]}" for answer, word in words.items() if counts[answer]
    )
    return ", ".join((f"{first}{total}", *further))


def leading(case: Case, variant: str) -> Ladder | None:
    """The ladder that a heading is about: that of the closed loops, if there is one."""
    ladders = [ladder for ladder in case.ladders if ladder.variant == variant]
    return min(ladders, key=lambda ladder: ladder.open, default=None)


def _over_test_cases(question: Question, ladders: Sequence[Ladder], cases: int) -> str:
    """One question over the loads of all test cases."""
    if cases == 1:
        return over_loads(ladders[0], question)
    counts = Counter(over_loads(ladder, question, exact=False) for ladder in ladders)
    (first, amount), *further = counts.most_common()
    parts = [f"{first} in {amount} of {wording.count(cases, 'test case')}"]
    return ", ".join((*parts, *(f"{phrase} in {count}" for phrase, count in further)))


def over_loads(ladder: Ladder, question: Question, *, exact: bool = True) -> str:
    """What is true at which loads: ``answers requests faster up to 4 at once and slower from 8``.

    Not ``exact``: without the loads, so that test cases can be counted by it.
    """
    crossover = question.answer(ladder)
    up_to, from_ = crossover.better_up_to, crossover.worse_from
    every = "at every load"
    if not ladder.whole:
        every = "at every load that has a verdict"
    elif ladder.failed and question is SPEED:
        every = "wherever they succeed"
    if up_to is not None and up_to >= ladder.loads[-1].amount:
        return f"{question.verb} {question.better} {every}"
    if from_ is not None and from_ <= ladder.loads[0].amount:
        return f"{question.verb} {question.worse} {every}"
    words = _OVER_LOADS[up_to is not None, from_ is not None][not exact]
    unit = phrases.load_unit(ladder.loads)
    return f"{question.verb} " + words.format(of=question, up_to=up_to, from_=from_, unit=unit)


def sentences(summary: Summary) -> Iterator[str]:
    """The verdict sentences of one load point; one that several variants share names them all."""
    for case in summary.cases:
        variants = defaultdict(list)
        for cell, comparison in case.compared:
            variants[comparison.verdict.sentence].append(cell.variant)
        for sentence, names in variants.items():
            subject = f"{wording.listed([*dict.fromkeys(names)])}: " if len(names) > 1 else ""
            yield f"{case.name}: {subject}{sentence}"


def sentences_over_loads(case: Case) -> Iterator[str]:
    """What is said of one test case over its loads, and at those that no ladder speaks for."""
    yield from (ladder.sentence for ladder in case.ladders)
    covered = [load for ladder in case.ladders for load in ladder.loads]
    for cell, comparison in case.compared:
        if cell.load not in covered or not comparison.verdict.finding.decided:
            yield f"At {phrases.load_points([cell.load])}: {comparison.verdict.sentence}"


def replies(summary: Summary) -> dict[str, list[list[Reply]]]:
    """Each test case's answers on each cell that is compared, all drawn on one scale."""
    priced, colours = phrases.priced(summary), palette.of(summary.variants)
    bar = _bars(comparison for case in summary.cases for _, comparison in case.compared)

    def reply(
        question: str, cell: Cell, claim: Claim | None, write: Callable[[Interval], Estimate]
    ) -> Reply:
        if claim is None or cell.comparison is None:
            return Reply(question)
        better = {Answer.BETTER: cell.variant, Answer.WORSE: cell.comparison.baseline}
        name = better.get(claim.answer)
        colour = colours[name].role if name else _MUTED
        return Reply(question, write(claim.interval).figure, bar(claim.interval), colour)

    def of_cell(cell: Cell, comparison: Comparison) -> Iterator[Reply]:
        yield reply("speed", cell, comparison.speed, phrases.speed)
        if ratio := comparison.by_time_per_output_token:
            yield Reply("decoding", phrases.speed(ratio).figure, bar(ratio))
        cost = partial(phrases.cost, priced=priced)
        yield reply("cost" if priced else "tokens/s", cell, comparison.cost, cost)

    return {
        case.name: [[*of_cell(cell, comparison)] for cell, comparison in case.compared]
        for case in summary.cases
    }


def _bars(comparisons: Iterable[Comparison]) -> Callable[[Interval], Bar]:
    """What makes an interval of these comparisons a bar, on a scale that has room for all."""
    intervals = [
        interval
        for comparison in comparisons
        for interval in (
            comparison.speedup,
            comparison.cost.interval if comparison.cost else None,
            comparison.by_time_per_output_token,
        )
        if interval
    ]
    low = min([0.8, *(interval.low for interval in intervals)]) / 1.05
    high = max([1.25, *(interval.high for interval in intervals)]) * 1.05

    def percent(ratio: float) -> float:
        return round(100 * math.log(ratio / low) / math.log(high / low), 2)

    return lambda interval: Bar(*map(percent, (interval.low, interval.point, interval.high, 1.0)))


def means(summary: Summary, title: str = "") -> Table:
    """One speed-up and one cost for each variant and class that has several test cases."""
    colours, priced = palette.of(summary.variants), phrases.priced(summary)
    several = len(summary.loads) > 1
    rows = []
    for mean in summary.overall:
        structure = f"{mean.structure} " if mean.structure else ""
        name = wording.count(mean.cases, f"{structure}test case")
        load = (phrases.load_points([mean.load]),) if several else ()
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
