"""Caveats of figures: gaps, failures, answers that do not compare."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from spectap import metrics, wording
from spectap.analysis.estimate import MARGIN
from spectap.analysis.summary import Case, Cell, Doubt, Matched, Summary
from spectap.inputs import load_points
from spectap.inputs.config import Config
from spectap.inputs.load_points import FEWEST_ROUNDS, LoadPoint
from spectap.report import phrases

_DIFFERENT: Final = 0.1
_LARGE: Final = 0.5
"""Shares of the prompts' tokens."""
_WAVES: Final = 8
"""In simulations of queues, a turn of one wave from an idle server shows up to 42 % too little
time, and one of four waves up to 12 %. One wave on a server that was filled first shows about 5 %
too little."""


def of_case(case: Case, summary: Summary) -> Iterator[str]:
    """The notes on one test case, a sentence each.

    A note repeats nothing that a verdict or a mark says. A note that holds at several load points
    is given once.
    """
    loads = len(case.loads)
    loads_of: dict[tuple[str, str], list[LoadPoint]] = {}
    for cell in case.cells:
        baseline = case.baseline_of(cell) if cell.comparison else None
        for text in _on_cell(cell, baseline, configured=summary.configured):
            of_text = loads_of.setdefault((cell.variant, text), [])
            of_text += [cell.load] if cell.load else []
    for (variant, text), at_loads in loads_of.items():
        at = "" if len(at_loads) in (0, loads) else f" at {load_points.listed(at_loads)}"
        yield f"{variant}{at}: {text}"


def _on_cell(cell: Cell, baseline: Cell | None, *, configured: bool) -> Iterator[str]:
    load, comparison = cell.load, cell.comparison
    if cell.errors > 0:
        yield (
            f"{cell.errors} of {cell.requests} requests failed, "
            f"most often with: {(cell.most_frequent_error or '').rstrip('.')}."
        )
    if cell.uncounted:
        yield (
            f"{cell.uncounted} of {cell.requests - cell.errors} answers have no count of tokens, "
            "or one that cannot be true. They are in no figure of tokens, nor is their time."
        )
    if cell.hidden_tokens:
        yield (
            f"the server counts {cell.hidden_tokens:.0f} tokens of thoughts an answer that it does "
            "not send. The time to first token includes them, and time per output token is given "
            "only where the server counts each chunk."
        )
    if baseline:
        yield from _on_counts(cell, baseline)
    if cell.model:
        yield f"answers name another model than the one asked for: {cell.model}."
    if cell.tools:
        yield (
            "requests offer tools, and a server holds chunks back while it reads a call. They are "
            "no steps, and the time to first token is that of the first chunk a client sees."
        )
    elif cell.measure(metrics.INTER_CHUNK_LATENCY) is not None and cell.steps is None:
        yield "the server gave no token count per chunk, so the first chunk counts as one token."
    elif cell.steps and cell.steps.doubt is Doubt.CONTRADICTED:
        yield (
            "the server's own counts say that an event of its stream is no step: it holds tokens "
            "back. Tokens an event are no measure of speculation."
        )
    speed_alone = comparison and comparison.speed and not comparison.cost
    if speed_alone and cell.tokens_per_second and not (load and load.open):
        yield (
            f"there are fewer than {FEWEST_ROUNDS} rounds, so the interval is made "
            "of blocks of time in them. What differs from round to round is not in it."
        )
    # Without a configuration nobody knows whether a variant speculates.
    if configured and comparison and cell.steps is not None and cell.steps.mean <= 1:
        yield "no step yielded more than one token, as if speculation were off."


def of_steps(summary: Summary) -> Iterator[str]:
    """Names variants whose tokens an event show nothing: no count of the server confirms them."""
    unconfirmed = [
        cell.variant
        for case in summary.cases
        for cell in case.cells
        if cell.steps and cell.steps.doubt is Doubt.UNCONFIRMED
    ]
    if unconfirmed:
        yield (
            f"{wording.listed([*dict.fromkeys(unconfirmed)])}: nothing confirms that an event of "
            "the stream is a step, so tokens an event are no measure of speculation."
        )


def _on_counts(cell: Cell, baseline: Cell) -> Iterator[str]:
    """Notes counts by which the sides had other prompts, or other tokens for the same."""
    prompts = [side.measure(metrics.INPUT_TOKENS) for side in (cell, baseline)]
    read, reads = (each.p50 if each else 0 for each in prompts)
    if read and reads and abs(math.log(read / reads)) > math.log1p(MARGIN):
        yield (
            f"prompts have {read:,.0f} tokens and {baseline.variant}'s {reads:,.0f}: one side cut "
            "them, or made another prompt of them, so the two did not do the same work."
        )
    text, texts = cell.characters_per_token, baseline.characters_per_token
    if text and texts and abs(math.log(text / texts)) > math.log1p(MARGIN):
        yield (
            f"a counted token has {text:.2f} characters and {baseline.variant}'s {texts:.2f}: one "
            "side counts tokens that it does not send, or the texts differ. Speeds by tokens are "
            "as far off."
        )


def of_run(config: Config, summary: Summary) -> Iterator[str]:
    if config.machines > 1 and config.stand_in is None:  # a rehearsal has one
        yield (
            f"{wording.listed(config.names)} ran on {config.machines} machines. A difference "
            "between the machines would look like one between the variants, and no interval covers "
            "it. To see it, run again on other nodes, and compare the runs."
        )
    if len({*config.models.values()}) > 1:
        named = ", ".join(f"{name}: {model}" for name, model in config.models.items())
        yield f"The variants were asked for models of different names ({named})."
    if summary.not_run and config.load.rounds.fixed:
        yield (
            "A run that ended early may have been stopped for what it showed: its intervals and "
            "claims allow one error in 1,000, not in 20."
        )
    if summary.halves:
        parts = [f"{name} {phrases.speed(speed)}" for name, speed in summary.halves.items()]
        yield (
            f"In the last half of the rounds requests were {wording.listed(parts)} as fast as in "
            "the first: a verdict is on the mean of both."
        )
    if config.isolated and summary.compares:
        measured = "The variants were measured one after another"
        if summary.drift is None:
            yield f"{measured}, and no control loads show what changed: nothing is compared."
        else:
            yield (
                f"{measured}: intervals include what the controls drifted, "
                f"{wording.percent(summary.drift)} % from begin to end of a variant, and more "
                "between variants whose times are further apart. What differs between two nodes "
                "all the time is not in it: no control shows that."
            )
    yield from map(_on_matched, summary.matched)
    yield from of_repetitions(summary)


def of_caches(shares: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> Iterator[str]:
    """Notes variants for which a prefix cache answers a part of the prompts' tokens.

    A chat template's own tokens are often among them. ``shares`` are by test case and variant.
    """
    for case, of_variants in shares.items():
        every = [of_variants.get(name, 0.0) for name in names]
        if max(every) - min(every) > _DIFFERENT or max(every) > _LARGE:
            parts = [f"{100 * share:.0f} % of {name}'s" for name, share in of_variants.items()]
            yield (
                f"{case}: {wording.listed(parts)} prompt tokens were in a cache of prefixes. That "
                "shortens the time to first token, and prompts that are new take longer."
            )


def of_llmperf(config: Config) -> Iterator[str]:
    """Notes loads that llmperf made and that may queue: it does not fill the server first, so the
    first wave decides."""
    batches = [variant.batch or 1 for variant in config.variants]
    queueing = (point for point in config.load.points if point.fill > min(batches))
    if points := [point for point in queueing if point.requests < _WAVES * point.fill]:
        yield (
            "llmperf begins each turn on idle servers, so its first requests met a lighter load "
            f"than they make at {load_points.listed(points)}: a queue shows too little. Ask for "
            f"{_WAVES} times as many requests as are in flight, or use the built-in driver."
        )


def of_repetitions(summary: Summary) -> Iterator[str]:
    """Notes the requests that are left out because their turn was measured again.

    A turn is measured again when one of its requests failed, so the figures show fewer failures
    than there were. Requests that an interruption cut off are not among them.
    """
    if summary.repeated:
        yield (
            "Left out, because their test case was measured again in the same round: "
            f"{wording.count(summary.repeated, 'request')}, {summary.repeated_failures} of which "
            "failed. Attempts that failed are in the cost, with all of their requests."
        )


def _on_matched(matched: Matched) -> str:
    """Notes how much of a variant's gain is from speculation: that over a matched baseline."""
    variant, baseline, without = matched.variant, matched.baseline, matched.without
    if matched.matched is None:
        explanation = (
            "What that costs was not measured, because no devices were left for a baseline "
            "without it."
        )
    else:
        explanation = f"{matched.matched} is served without it, too, and decides nothing."
        ratios = [
            f"{phrases.speed(explaining)} as fast as {matched.matched} and "
            f"{phrases.speed(deciding)} as fast as {baseline} at {load}"
            for load, explaining, deciding in matched.speeds
        ]
        if ratios:
            explanation += f" Over all test cases {variant} is {'; '.join(ratios)}."
    return (
        f"{variant} is served without {without}, which speculation turns off, and {baseline} with "
        f"it, as one would serve it. {explanation}"
    )


def of_ending(summary: Summary) -> Iterator[str]:
    """Notes what a run that ended early lacks."""
    if unfinished := [c.name for c in summary.cases if not all(cell.complete for cell in c.cells)]:
        yield f"The run is not complete: requests are missing in {wording.listed(unfinished)}."
    if summary.not_run:
        turns = wording.count(summary.not_run, "turn")
        yield f"The run ended early: {turns} not measured."


def of_cells(cells: Sequence[Cell]) -> Iterator[str]:
    """Clauses on cells, which begin with a name or a number; with several loads they name them."""
    several = len({cell.load for cell in cells if cell.load}) > 1
    by_variant: dict[str, list[Cell]] = {}
    for cell in cells:
        by_variant.setdefault(cell.variant, []).append(cell)
    names_of: dict[str, list[str]] = {}
    for name, of_variant in by_variant.items():
        failed = [cell for cell in of_variant if cell.errors]
        again = [cell for cell in of_variant if cell.repeated_errors]
        errors, requests = (sum(getattr(c, n) for c in failed) for n in ("errors", "requests"))
        repeated = wording.count(sum(cell.repeated_errors for cell in again), f"{name} request")
        for text, of_clause in (
            ("{} requests queue", [cell for cell in of_variant if cell.queued]),
            (f"{errors} of {requests} {name} requests failed", failed),
            (f"{repeated} failed in turns that were measured again", again),
            ("the client was too slow for {}", [cell for cell in of_variant if cell.slowed]),
            ("{} requests were sent late", [cell for cell in of_variant if cell.lagging]),
        ):
            loads = [*dict.fromkeys(cell.load for cell in of_clause if cell.load)]
            at = f" at {load_points.listed(loads)}" if several and loads else ""
            if of_clause:
                names_of.setdefault(f"{text}{at}", []).append(name)
    yield from (text.replace("{}", wording.listed(names)) for text, names in names_of.items())
