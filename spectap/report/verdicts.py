"""What the page says first: the headline, and for each comparison its two answers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from spectap import palette, wording
from spectap.analysis.comparison import cautions, decoding
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import (
    Answer,
    Case,
    Cell,
    Claim,
    Comparison,
    Ladder,
    Summary,
    Verdict,
)
from spectap.report import answers, ladders, loads
from spectap.report.answers import Written
from spectap.report.ladders import Phrase, Verb

_SPEED: Final = {
    Answer.BETTER: "answers requests faster",
    Answer.WORSE: "answers requests slower",
}
_COST: Final = {Answer.BETTER: "costs less", Answer.WORSE: "costs more"}
_TOGETHER: Final = {Answer.BETTER: "gets more tokens/s", Answer.WORSE: "gets fewer tokens/s"}
_MUTED: Final = "muted"
_ORDER: Final = (*Answer, None)


@dataclass(frozen=True)
class Bar:
    """Where the parts of an interval's bar begin on a logarithmic scale, and how long they are.

    All in percent of the scale: the interval, the stem from 1x to the point, the point, and 1x.
    """

    low: float
    width: float
    stem: float
    stem_width: float
    point: float
    one: float


@dataclass(frozen=True)
class Shown:
    """The answer to one question."""

    question: str
    written: Written
    bar: Bar | None
    """None, and nothing written, where there is no answer."""
    colour: str
    """Role of the colour of the better variant."""


@dataclass(frozen=True)
class Line:
    """The verdict on one variant in one test case."""

    case: Case
    load: str
    """Empty where there is one load point only."""
    variant: str
    """Empty where each sentence says the name: where one variant is compared."""
    verdict: Verdict
    answers: tuple[Shown, ...]
    notes: tuple[str, ...]

    @property
    def quiet(self) -> bool:
        """Whether it has no difference to tell that matters."""
        return all(shown.colour == _MUTED for shown in self.answers)


def headline(summary: Summary) -> tuple[str, tuple[str, ...]]:
    """The heading, and the lines below it: one for each variant where several are compared."""
    over_loads = len(summary.loads) > 1 and any(case.ladders for case in summary.cases)
    text, lines = (_of_ladders if over_loads else _of_cells)(summary)
    beside = [_beside(summary, *pair) for pair in _baselines(summary).items()]
    if len(beside) == 1:
        ((clauses, explained),) = beside
        text, lines = "; ".join((text, *clauses)), (*explained, *lines)
    else:
        lines = tuple(
            " ".join((line, *(f"{clause}." for clause in (*clauses, *explained))))
            for line, (clauses, explained) in zip(lines, beside, strict=True)
        )
    return f"Rehearsal: {text}" if summary.rehearsal else text, lines


def _beside(
    summary: Summary, variant: str, baseline: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What limits a headline on one variant, and what explains it."""
    several = len(summary.loads) > 1
    cells = [
        cell for case in summary.cases for cell in case.cells if cell.variant in (variant, baseline)
    ]
    compared = [one.comparison for one in cells if one.variant == variant and one.comparison]
    clauses = [*cautions(cells, at=several)]
    if several and (lacking := sum(not one.verdict.finding.decided for one in compared)):
        clauses.append(f"{lacking} of {len(compared)} measurements have no verdict")
    return tuple(clauses), tuple(decoding(cells, at=several))


def _baselines(summary: Summary) -> dict[str, str]:
    return {cell.variant: found.baseline for case in summary.cases for cell, found in case.compared}


def _of_cells(summary: Summary) -> tuple[str, tuple[str, ...]]:
    """What is found how often; at one load point, a cell is a test case."""
    found: dict[str, list[Comparison]] = defaultdict(list)
    for case in summary.cases:
        for cell, comparison in case.compared:
            found[cell.variant].append(comparison)
    cases = wording.count(len(summary.cases), "test case")
    total = cases
    if len(summary.loads) > 1:
        total = f"{len(summary.cases) * len(summary.loads)} measurements"
        cases += f" at {len(summary.loads)} load points"
    said = [_told(variant, own, answers.priced(summary)) for variant, own in found.items()]
    if len(said) == 1:
        return _sentence(said[0], f" of {total}"), ()
    if said:
        lines = tuple(f"{_line(variant, told)}." for variant, told in zip(found, said, strict=True))
        return f"{len(said)} variants compared in {cases}", lines
    return f"{summary.subject} in {cases}", ()


def _of_ladders(summary: Summary) -> tuple[str, tuple[str, ...]]:
    """Up to which load each variant is better; a line for the cost, and for each of several."""
    together = ladders.COST if answers.priced(summary) else ladders.TOGETHER
    said = [
        [
            _over_loads(asked, says, len(summary.cases))
            for says in (ladders.SPEED, together)
            if (asked := _asked(own, says))
        ]
        for variant in summary.variants
        if (own := _leading(summary, variant))
    ]
    if len(said) == 1:
        ((speed, *cost),) = said
        return speed, tuple(cost)
    cases = wording.count(len(summary.cases), "test case")
    text = f"{len(said)} variants compared in {cases} at {len(summary.loads)} load points"
    return text, tuple(" ".join(f"{one}." for one in own) for own in said)


def _leading(summary: Summary, variant: str) -> list[Ladder]:
    found = (ladders.leading(case, variant) for case in summary.cases)
    return [ladder for ladder in found if ladder is not None]


def _asked(own: list[Ladder], says: Verb) -> list[Ladder]:
    """The ladders of which a question is asked: in an open loop, that of the speed alone."""
    return own if says is ladders.SPEED else [ladder for ladder in own if not ladder.open]


def _over_loads(own: list[Ladder], says: Verb, cases: int) -> str:
    """One question to one variant, over all test cases."""
    if cases == 1:
        (ladder,) = own
        found = ladder.speed if says is ladders.SPEED else ladder.cost
        return ladders.exact(ladder, found, says)
    told = ladders.counted(own, says)
    return _line(own[0].variant, told, f" of {wording.count(cases, 'test case')}")


def lines(summary: Summary) -> Iterator[Line]:
    """A line for each comparison, all drawn on one scale."""
    several = len(summary.loads) > 1
    compared = [(case, *pair) for case in summary.cases for pair in case.compared]
    claims = [claim for _, _, found in compared for claim in (found.speed, found.cost) if claim]
    alone = [one for _, _, found in compared if (one := found.by_time_per_output_token)]
    place = _scale([*(claim.interval for claim in claims), *alone])
    for case, cell, found in compared:
        yield Line(
            case=case,
            load=loads.words([cell.load]) if several else "",
            variant=cell.variant if _variants(case) > 1 else "",
            verdict=found.verdict,
            answers=tuple(_shown(summary, cell, found, place)),
            notes=case.notes if cell is case.compared[-1][0] and not several else (),
        )


def _variants(case: Case) -> int:
    return len({cell.variant for cell, _ in case.compared})


def _told(variant: str, found: list[Comparison], priced: bool) -> Counter[Phrase]:
    """How often each thing is found of a variant, the best first."""
    pairs = Counter(
        (one.speed.answer if one.speed else None, one.cost.answer if one.cost else None)
        for one in found
    )
    phrases: Counter[Phrase] = Counter()
    for speed, cost in sorted(pairs, key=lambda pair: [_ORDER.index(one) for one in pair]):
        phrases[_phrase(variant, speed, cost, priced)] += pairs[speed, cost]
    return phrases


def _phrase(variant: str, speed: Answer | None, cost: Answer | None, priced: bool) -> Phrase:
    if speed is None:
        return variant, "has no verdict"
    words = (_SPEED.get(speed), (_COST if priced else _TOGETHER).get(cost) if cost else None)
    if said := [word for word in words if word]:
        return variant, (" and " if speed is cost else " but ").join(said)
    if Answer.UNDECIDED in (speed, cost):
        return "no difference", "can be told"
    return "the difference", "is too small to matter"


def _sentence(told: Counter[Phrase], total: str = "") -> str:
    """``SD is faster and costs less in 6 of 10 test cases; no difference can be told in 4``."""
    text, before = "", ""
    for (subject, predicate), amount in told.items():
        if not text:
            # A name stays as it is.
            start = subject.capitalize() if " " in subject else subject
            text = f"{start} {predicate} in {amount}{total}"
        elif subject == before:
            text += f", {predicate} in {amount}"
        else:
            text += f"; {subject} {predicate} in {amount}"
        before = subject
    return text


def _line(variant: str, told: Counter[Phrase], total: str = "") -> str:
    """The sentence on one variant of several, which begins with its name."""
    text = _sentence(told, total)
    if text.startswith(f"{variant} "):
        return text
    return f"{variant}: {text[:1].lower()}{text[1:]}"


def _shown(
    summary: Summary, cell: Cell, found: Comparison, place: Callable[[float], float]
) -> Iterator[Shown]:
    priced = answers.priced(summary)
    colours = palette.of(summary.variants)

    def shown(question: str, claim: Claim | None, write: Callable[[Interval], Written]) -> Shown:
        if claim is None:
            return Shown(question, answers.UNKNOWN, None, _MUTED)
        better = {Answer.BETTER: cell.variant, Answer.WORSE: found.baseline}.get(claim.answer)
        colour = colours[better].role if better else _MUTED
        return Shown(question, write(claim.interval), _bar(claim.interval, place), colour)

    yield shown("speed", found.speed, answers.speed)
    if alone := found.by_time_per_output_token:
        yield Shown("decoding", answers.speed(alone), _bar(alone, place), _MUTED)
    question = "cost" if priced else "tokens/s"
    yield shown(question, found.cost, lambda interval: answers.cost(interval, priced=priced))


def _scale(shown: list[Interval]) -> Callable[[float], float]:
    low = min([0.8, *(interval.low for interval in shown)]) / 1.05
    high = max([1.25, *(interval.high for interval in shown)]) * 1.05
    return lambda ratio: round(100 * math.log(ratio / low) / math.log(high / low), 2)


def _bar(interval: Interval, place: Callable[[float], float]) -> Bar:
    low, high = place(interval.low), place(interval.high)
    point, one = place(interval.point), place(1.0)
    return Bar(
        low=low,
        width=round(high - low, 2),
        stem=min(point, one),
        stem_width=round(abs(point - one), 2),
        point=point,
        one=one,
    )
