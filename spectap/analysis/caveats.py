"""What to know before believing a figure: gaps, failures, answers that do not compare."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from spectap import metrics, wording
from spectap.analysis.estimates.estimate import MARGIN
from spectap.analysis.evidence import Evidence
from spectap.analysis.summary import Cell, Summary
from spectap.config import Config
from spectap.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.record import Record


def of_case(cells: Sequence[Cell], *, known: bool) -> Iterator[str]:
    """The notes on one test case, a sentence each. ``known``: whether there is a configuration.

    What a verdict says itself is no note. What is true at several load points is said once.
    """
    loads = dict.fromkeys(cell.load for cell in cells)
    loads_of: dict[tuple[str, str], list[LoadPoint | None]] = {}
    for load in loads:
        at_load = {cell.variant: cell for cell in cells if cell.load == load}
        compared = [(cell, cell.comparison) for cell in at_load.values() if cell.comparison]
        remarks = [(cell.variant, text) for cell in at_load.values() for text in _on_cell(cell)]
        for cell, comparison in compared:
            lengths = comparison.lengths
            if lengths and abs(math.log(lengths.point)) > math.log1p(MARGIN):
                bounds = f"{lengths.low:.2f}-{lengths.high:.2f}"
                text = (
                    f"{cell.variant}'s answers are {lengths.point:.2f}x as long as "
                    f"{comparison.baseline}'s ({bounds}): compare times per token, not end to end. "
                    "A longer answer spreads its first token over more."
                )
                remarks.append(("", text))
            # Without a configuration nobody knows whether a variant speculates.
            if known and cell.steps is not None and cell.steps.mean <= 1:
                text = "no step yielded more than one token, as if speculation were off."
                remarks.append((cell.variant, text))
        for remark in remarks:
            loads_of.setdefault(remark, []).append(load)
    for (variant, text), at_loads in loads_of.items():
        everywhere = len(at_loads) == len(loads)
        phrase = "" if everywhere else f"at {' and at '.join(map(str, at_loads))}"
        if variant:
            yield f"{' '.join(filter(None, (variant, phrase)))}: {text}"
        else:
            yield f"{phrase[:1].upper()}{phrase[1:]}, {text}" if phrase else text


def _on_cell(cell: Cell) -> Iterator[str]:
    load, schedule, comparison = cell.load, cell.schedule, cell.comparison
    if schedule is not None and schedule.lagging:
        p99, worst = map(wording.milliseconds, (schedule.p99, schedule.worst))
        yield (
            f"the load lagged behind its schedule: 1 % of the requests were sent at least {p99} ms "
            f"late, the latest {worst} ms. So the load was another than it says, and the waiting "
            "before a request was sent is in no figure."
        )
    if cell.queued:
        yield (
            "requests queue: they wait for others before they are served. Their waiting is in the "
            "time to first token, in the end-to-end latency and in the request speed."
        )
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
        amount, names = wording.count(len(unfinished), "case"), ", ".join(unfinished)
        yield f"The run is not complete: requests are missing in {amount} ({names})."
    if summary.not_run:
        turns = wording.count(summary.not_run, "turn")
        yield f"The run ended early: its last {turns} were not measured and are in no figure."
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
    """What is left out because its turn was measured again, failures above all.

    A turn is measured again when a request of it failed, so the figures have fewer failures than
    there were. Requests that an interruption cut off are none.
    """
    if not repeated:
        return
    failed = Counter(record.variant for record in repeated if record.failed)
    failures = "".join(
        f" {variant}: {wording.count(number, 'failure')}." for variant, number in failed.items()
    )
    if failed:
        failures += " Attempts that failed are in the cost, with all of their requests."
    yield (
        "Left out, because their test case was measured again in the same round: "
        f"{wording.count(len(repeated), 'request')}." + failures
    )
