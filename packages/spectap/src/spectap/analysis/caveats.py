"""What to know before believing a figure: gaps, failures, answers that do not compare."""

import math
from collections.abc import Iterator, Sequence

from spectap import load_points, metrics, wording
from spectap.analysis.estimates.estimate import MARGIN
from spectap.analysis.evidence import Evidence
from spectap.analysis.summary import Cell, Summary
from spectap.config import Config
from spectap.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.record import Record


def of_case(cells: Sequence[Cell], *, known: bool) -> Iterator[str]:
    """The notes on one test case, a sentence each. ``known``: whether there is a configuration.

    What a verdict or a mark says itself is no note. What is true at several load points is said
    once.
    """
    loads = len({cell.load for cell in cells})
    loads_of: dict[tuple[str, str], list[LoadPoint]] = {}
    for cell in cells:
        for text in _on_cell(cell, known=known):
            of_text = loads_of.setdefault((cell.variant, text), [])
            of_text += [cell.load] if cell.load else []
    for (variant, text), at_loads in loads_of.items():
        at = "" if len(at_loads) in (0, loads) else f" at {load_points.listed(at_loads)}"
        yield f"{variant}{at}: {text}"


def _on_cell(cell: Cell, *, known: bool) -> Iterator[str]:
    load, comparison = cell.load, cell.comparison
    if cell.errors > 0:
        yield (
            f"{cell.errors} of {cell.requests} requests failed, "
            f"most often with: {(cell.most_frequent_error or '').rstrip('.')}."
        )
    if cell.tools:
        yield (
            "requests offer tools, and a server holds chunks back while it reads a call. They are "
            "no steps, and the time to first token is that of the first chunk a client sees."
        )
    elif cell.measure(metrics.INTER_CHUNK_LATENCY) is not None and cell.steps is None:
        yield "the server gave no token count per chunk, so the first chunk counts as one token."
    speed_alone = comparison and comparison.speed and not comparison.cost
    if speed_alone and cell.tokens_per_second and not (load and load.open):
        yield (
            f"there are fewer than {FEWEST_ROUNDS} rounds, so the interval is made "
            "of blocks of time in them. What differs from round to round is not in it."
        )
    lengths = comparison.lengths if comparison else None
    if comparison and lengths and abs(math.log(lengths.point)) > math.log1p(MARGIN):
        of_answer = " Cost is that of an answer." if comparison.by_tokens else ""
        yield (
            f"answers are {lengths.point:.2f}x as long as {comparison.baseline}'s "
            f"({lengths.low:.2f}-{lengths.high:.2f}): compare times per token, not end to end. A "
            f"longer answer spreads its first token over more.{of_answer}"
        )
    # Without a configuration nobody knows whether a variant speculates.
    if known and comparison and cell.steps is not None and cell.steps.mean <= 1:
        yield "no step yielded more than one token, as if speculation were off."


def of_run(config: Config, summary: Summary, evidence: Evidence) -> Iterator[str]:
    """The notes on a whole run."""
    if config.stand_in is not None:
        yield (
            f"A rehearsal: {config.stand_in} stood in for the services. "
            "Times, speed-ups and costs are theirs and say nothing about Trainium."
        )
    elif config.machines > 1:  # a rehearsal has one
        yield (
            f"{wording.listed(config.names)} ran on {config.machines} machines. A difference "
            "between the machines would look like one between the variants, and no interval covers "
            "it. To see it, run again on other nodes, and compare the runs."
        )
    if len({*config.models.values()}) > 1:
        named = ", ".join(f"{name}: {model}" for name, model in config.models.items())
        yield f"The variants were asked for models of different names ({named})."
    if unfinished := [c.name for c in summary.cases if not all(cell.complete for cell in c.cells)]:
        yield f"The run is not complete: requests are missing in {wording.listed(unfinished)}."
    if summary.not_run:
        turns = wording.count(summary.not_run, "turn")
        yield f"The run ended early: {turns} not measured."
    if config.isolated and summary.compares:
        measured = "The variants were measured one after another"
        if evidence.unsteadiness is None:
            yield f"{measured}, and no control loads show what changed: nothing is compared."
            return
        drifted = wording.percent(math.expm1(evidence.unsteadiness.change))
        yield (
            f"{measured}: intervals include what the controls drifted, {drifted} % from begin to "
            "end of a variant, and more between variants whose times are further apart. What "
            "differs between two nodes all the time is not in it: no control shows that."
        )


def of_repetitions(repeated: Sequence[Record]) -> Iterator[str]:
    """What is left out because its turn was measured again.

    A turn is measured again when a request of it failed, so the figures have fewer failures than
    there were. Requests that an interruption cut off are none.
    """
    if repeated:
        failed = sum(record.failed for record in repeated)
        yield (
            "Left out, because their test case was measured again in the same round: "
            f"{wording.count(len(repeated), 'request')}, {failed} of which failed. Attempts that "
            "failed are in the cost, with all of their requests."
        )
