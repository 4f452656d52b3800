"""Each comparison: its verdict with bars on one scale, and means over test cases of a class."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from spectap import palette, wording
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Answer as Finding
from spectap.analysis.summary import Case, Cell, Claim, Comparison, Overall, Summary
from spectap.report import phrases, view
from spectap.report.phrases import Estimate
from spectap.report.view import Bar, Columns, Row, Table, Verdict

_MUTED = "muted"


def verdicts(summary: Summary) -> Iterator[tuple[Case, Verdict]]:
    """The verdict on each comparison after its test case, all drawn on one scale."""
    several_loads = len(summary.loads) > 1
    compared = [(case, *pair) for case in summary.cases for pair in case.compared]
    scale = _scale([interval for *_, comparison in compared for interval in _intervals(comparison)])
    colours = palette.of(summary.variants)
    for case, cell, comparison in compared:
        last = cell is case.compared[-1][0]
        answers = tuple(_answers(summary, cell, comparison, scale))
        named = len({compared.variant for compared, _ in case.compared}) > 1
        yield (
            case,
            Verdict(
                title=phrases.load_points([cell.load]) if several_loads else case.name,
                structure="" if several_loads else case.structure,
                variant=cell.variant if named else "",
                colour=colours[cell.variant].role,
                answers=answers,
                sentence=comparison.verdict.sentence,
                notes=case.notes if last and not several_loads else (),
                quiet=all(answer.colour == _MUTED for answer in answers),
            ),
        )


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


def means(summary: Summary) -> Table:
    """One speed-up and one cost for each variant and class that has several test cases."""
    colours = palette.of(summary.variants)
    overall = [each for each in summary.overall if each.speed or each.cost]
    several_loads = len(summary.loads) > 1

    def row(mean: Overall) -> Row:
        load = (phrases.load_points([mean.load]),) if several_loads else ()
        cost = phrases.cost(mean.cost, priced=phrases.priced(summary))
        return Row(
            (_test_cases(mean), *load, mean.variant),
            (_pair(phrases.speed(mean.speed)), _pair(cost)),
            colours[mean.variant].role,
        )

    return Table(
        "",
        ("class", *(("load",) if several_loads else ()), "variant"),
        (
            Columns("speed of one request", ("", "95 %")),
            Columns(
                "cost of a token" if phrases.priced(summary) else "tokens/s of all together",
                ("", "95 %"),
            ),
        ),
        (tuple(map(row, overall)),),
    )


def _test_cases(mean: Overall) -> str:
    structure = f"{mean.structure} " if mean.structure else ""
    return wording.count(mean.cases, f"{structure}test case")


def _pair(estimate: Estimate) -> tuple[str, str]:
    return estimate.figure or wording.MISSING, estimate.bounds


def _answers(
    summary: Summary, cell: Cell, comparison: Comparison, scale: Callable[[float], float]
) -> Iterator[view.Answer]:
    priced = phrases.priced(summary)
    colours = palette.of(summary.variants)

    def answer(
        question: str, claim: Claim | None, write: Callable[[Interval], Estimate]
    ) -> view.Answer:
        if claim is None:
            return view.Answer(question, wording.MISSING, None, _MUTED)
        better = {Finding.BETTER: cell.variant, Finding.WORSE: comparison.baseline}
        name = better.get(claim.answer)
        colour = colours[name].role if name else _MUTED
        figure = write(claim.interval).figure
        return view.Answer(question, figure, _bar(claim.interval, scale), colour)

    yield answer("speed", comparison.speed, phrases.speed)
    if decoding := comparison.by_time_per_output_token:
        figure = phrases.speed(decoding).figure
        yield view.Answer("decoding", figure, _bar(decoding, scale), _MUTED)
    question = "cost" if priced else "tokens/s"
    yield answer(question, comparison.cost, lambda ratio: phrases.cost(ratio, priced=priced))


def _intervals(comparison: Comparison) -> Iterator[Interval]:
    yield from (claim.interval for claim in (comparison.speed, comparison.cost) if claim)
    if comparison.by_time_per_output_token:
        yield comparison.by_time_per_output_token


def _scale(intervals: Sequence[Interval]) -> Callable[[float], float]:
    """From a ratio to percent of the bar's width."""
    low = min([0.8, *(interval.low for interval in intervals)]) / 1.05
    high = max([1.25, *(interval.high for interval in intervals)]) * 1.05
    return lambda ratio: round(100 * math.log(ratio / low) / math.log(high / low), 2)


def _bar(interval: Interval, scale: Callable[[float], float]) -> Bar:
    low, high = scale(interval.low), scale(interval.high)
    point, one = scale(interval.point), scale(1.0)
    return Bar(
        low=low,
        width=round(high - low, 2),
        stem=min(point, one),
        stem_width=round(abs(point - one), 2),
        point=point,
        one=one,
    )
