"""What is said of each comparison below the headline, and means by class."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from spectap import palette, wording
from spectap.analysis.summary import Answer, Case, Cell, Claim, Crossover, Ladder, Summary
from spectap.report import phrases
from spectap.report.sentences import details
from spectap.report.view import Columns, Row, Table

_SIDES: Final = (Answer.BETTER, Answer.WORSE)


@dataclass(frozen=True)
class Reply:
    """The answer to one question about a comparison."""

    question: str
    figure: str
    colour: str
    """Role of the better variant's colour; grey where no difference is proven."""


def crossovers(case: Case, ladder: Ladder, summary: Summary) -> str:
    """Where both variants are equal; empty where they do not turn once from better to worse."""
    parts = []
    together = "cost" if phrases.priced(summary) else "throughput"
    for name, field in (("speed", "speed"), (together, "cost")):
        crossover: Crossover = getattr(ladder, field)
        rows = [case.cell(ladder.variant, load).comparison for load in ladder.judged]
        claims = [getattr(row, field) for row in rows]
        sides = [claim.answer for claim in claims if claim and claim.answer in _SIDES]
        if crossover.bounded and sum(one is not next for one, next in pairwise(sides)) == 1:
            # To two digits: it is an estimate between two loads.
            at, bounds = crossover.point, (crossover.better_up_to, crossover.worse_from)
            parts.append(f"{name} at about {float(f'{at:.2g}'):g} ({bounds[0]:g} to {bounds[1]:g})")
    unit = phrases.load_unit(ladder.loads)
    equal = f"{ladder.variant} equals {ladder.baseline} in {' and in '.join(parts)} requests {unit}"
    return f"{equal}." if parts else ""


def sentences(case: Case, summary: Summary) -> tuple[str, ...]:
    """What the rows of one test case do not say themselves; variants with the same share it.

    Where there are several loads, they name a sentence.
    """
    texts = [crossovers(case, ladder, summary) for ladder in case.ladders]
    for cell, comparison in case.compared:
        subject = f"At {cell.load or 'an unnamed load'}" if summary.loads[1:] else case.name
        # The headline says why there is no verdict.
        text = details(case, cell, summary) if comparison.speed else ""
        texts.append(text and f"{subject}: {text}")
    return tuple(dict.fromkeys(filter(None, texts)))


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
