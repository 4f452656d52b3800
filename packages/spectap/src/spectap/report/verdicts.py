"""Sentences on each comparison below the headline."""

from itertools import pairwise
from typing import Final

from spectap.analysis.summary import Answer, Case, Crossover, Ladder, Summary
from spectap.report import phrases
from spectap.report.sentences import details

_SIDES: Final = (Answer.BETTER, Answer.WORSE)


def crossovers(case: Case, ladder: Ladder, summary: Summary) -> str:
    """Where both variants are equal; empty where they do not turn once from better to worse."""
    parts = []
    together = "cost" if phrases.priced(summary) else "throughput"
    for name, field in (("speed", "speed"), (together, "cost")):
        crossover: Crossover = getattr(ladder, field)
        rows = [case.cell(ladder.variant, load).comparison for load in ladder.judged]
        claims = [getattr(row, field) for row in rows]
        sides = [claim.answer for claim in claims if claim and claim.answer in _SIDES]
        if crossover.bounded and sum(side is not after for side, after in pairwise(sides)) == 1:
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
