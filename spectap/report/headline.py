"""What is said first: how often each variant is better, up to which load, and what limits that.

Failures, queues, lagging loads and missing verdicts are said in the headline itself: they decide
what the figures are worth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import wording
from spectap.analysis.comparison import cautions, decoding
from spectap.analysis.summary import Answer, Case, Claim, Comparison, Crossover, Ladder, Summary
from spectap.report import phrases


@dataclass(frozen=True)
class Question:
    """What is asked of a variant, and how it is answered."""

    verb: str
    subject: str
    """What stands before counts of answers: ``requests faster in 2 of 3 test cases``."""
    better: str
    worse: str

    def claim(self, comparison: Comparison) -> Claim | None:
        """The answer at one load."""
        return comparison.speed if self is SPEED else comparison.cost

    def crossover(self, ladder: Ladder) -> Crossover:
        """The answer over several loads."""
        return ladder.speed if self is SPEED else ladder.cost

    @property
    def phrases(self) -> Mapping[Answer | None, str]:
        """How each answer is written after the verb, in the order in which they are said."""
        return {
            Answer.BETTER: self.better,
            Answer.WORSE: self.worse,
            Answer.NEGLIGIBLE: "about the same",
            Answer.UNDECIDED: "undecided",
            None: "without a verdict",
        }


SPEED: Final = Question("answers requests", "requests", "faster", "slower")
COST: Final = Question("costs", "cost", "less", "more")
TOGETHER: Final = Question("gets", "all together", "more tokens/s", "fewer tokens/s")


def headline(summary: Summary) -> tuple[str, tuple[str, ...]]:
    """The heading, and sentences below it: one for each variant where several are compared."""
    baselines = {
        cell.variant: comparison.baseline
        for case in summary.cases
        for cell, comparison in case.compared
    }
    cases = wording.count(len(summary.cases), "test case")
    if len(summary.loads) > 1:
        cases += f" at {len(summary.loads)} load points"
    variants = [
        (_sentences(summary, variant), *_beside(summary, variant, baseline))
        for variant, baseline in baselines.items()
    ]
    below: tuple[str, ...] = ()
    if len(variants) == 1:
        (((first, *more), limits, explained),) = variants
        text, below = "; ".join((first, *limits)), (*explained, *more)
    elif variants:
        text = f"{len(variants)} variants compared in {cases}"
        below = tuple(
            ". ".join((*sentences, *limits, *explained)) + "."
            for sentences, limits, explained in variants
        )
    else:
        text = f"{summary.subject} in {cases}"
    return f"Rehearsal: {text}" if summary.rehearsal else text, below


def _beside(summary: Summary, variant: str, baseline: str) -> tuple[list[str], list[str]]:
    """Clauses on what limits the headline on one variant, and on what explains it."""
    several = len(summary.loads) > 1
    names = (variant, baseline)
    cells = [cell for case in summary.cases for cell in case.cells if cell.variant in names]
    limits = [*cautions(cells, at=several)]
    compared = _comparisons(summary, variant)
    lacking = sum(not comparison.verdict.finding.decided for comparison in compared)
    if several and lacking:
        limits.append(f"{lacking} of {len(compared)} measurements have no verdict")
    return limits, [*decoding(cells, at=several)]


def _comparisons(summary: Summary, variant: str) -> list[Comparison]:
    return [
        comparison
        for case in summary.cases
        for cell, comparison in case.compared
        if cell.variant == variant
    ]


def _sentences(summary: Summary, variant: str) -> list[str]:
    """What is found of one variant: over the loads where there are several, else by test case."""
    together = COST if phrases.priced(summary) else TOGETHER
    ladders = [ladder for case in summary.cases if (ladder := leading(case, variant))]
    if ladders and len(summary.loads) > 1:
        closed = [ladder for ladder in ladders if not ladder.open]
        asked = ((SPEED, ladders), (together, closed))
        return [
            f"{variant} {_over_loads(question, of, len(summary.cases))}"
            for question, of in asked
            if of
        ]
    return [_over_cells(summary, variant, together)]


def _over_cells(summary: Summary, variant: str, together: Question) -> str:
    """How often each answer is given; at one load point, to a test case."""
    compared = _comparisons(summary, variant)
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
    claims = map(question.claim, compared)
    counts = Counter(claim.answer if claim else None for claim in claims)
    (answer, phrase), *others = (item for item in question.phrases.items() if counts[item[0]])
    first = f"{phrase} in {counts[answer]}{total}"
    return ", ".join((first, *(f"{phrase} in {counts[answer]}" for answer, phrase in others)))


def leading(case: Case, variant: str) -> Ladder | None:
    """The ladder that a heading is about: that of the closed loops, if there is one."""
    ladders = [ladder for ladder in case.ladders if ladder.variant == variant]
    return min(ladders, key=lambda ladder: ladder.open, default=None)


def _over_loads(question: Question, ladders: Sequence[Ladder], cases: int) -> str:
    """One question over the loads of all test cases."""
    if cases == 1:
        return over_loads(ladders[0], question)
    counts = Counter(over_loads(ladder, question, exact=False) for ladder in ladders)
    (first, amount), *others = counts.most_common()
    parts = [f"{first} in {amount} of {wording.count(cases, 'test case')}"]
    return ", ".join((*parts, *(f"{phrase} in {count}" for phrase, count in others)))


def over_loads(ladder: Ladder, question: Question, *, exact: bool = True) -> str:
    """What is true at which loads: ``answers requests faster up to 4 at once and slower from 8``.

    Not ``exact``: without the loads, so that test cases can be counted by it.
    """
    verb, crossover = question.verb, question.crossover(ladder)
    up_to, from_ = crossover.better_up_to, crossover.worse_from
    every = "at every load"
    if not ladder.whole:
        every = "at every load that has a verdict"
    elif ladder.failed and question is SPEED:
        every = "wherever they succeed"
    if up_to is not None and up_to >= ladder.loads[-1].amount:
        return f"{verb} {question.better} {every}"
    if from_ is not None and from_ <= ladder.loads[0].amount:
        return f"{verb} {question.worse} {every}"
    unit = phrases.load_unit(ladder.loads)
    low = f"up to {up_to:g} {unit}" if exact and up_to is not None else "at low loads"
    high = "at high ones" if up_to is not None else "at high loads"
    if exact and from_ is not None:
        high = f"from {from_:g}" if up_to is not None else f"from {from_:g} {unit}"
    if up_to is not None and from_ is not None:
        return f"{verb} {question.better} {low} and {question.worse} {high}"
    if up_to is not None:
        return f"{verb} {question.better} {low}; above, that is undecided"
    if from_ is not None:
        return f"{verb} {question.worse} {high}; below, that is undecided"
    return f"{verb} {question.better} up to a load that is undecided"
