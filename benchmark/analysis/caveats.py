"""What to know before believing a figure: gaps, failures, answers that do not compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmark import metrics, wording
from benchmark.analysis.summary import Case, Cell
from benchmark.config import Config, Load

# Answers whose lengths differ by more than this are compared per token, not as a whole.
_LENGTH_TOLERANCE: Final = 0.05


def of_case(load: Load | None, cells: Sequence[Cell]) -> Iterator[str]:
    """The notes on one test case, a sentence each. ``load``: None where it is not known."""
    by_variant = {cell.variant: cell for cell in cells}
    for cell in cells:
        if load is not None:
            yield from _on_amount(load, cell)
        yield from _on_answers(cell)
    for cell in cells:
        if cell.comparison is not None:
            yield from _on_lengths(by_variant[cell.comparison.baseline], cell)
    for cell in cells:
        # Without a configuration nobody knows whether a variant speculates.
        if load and cell.comparison and cell.steps is not None and cell.steps.mean <= 1:
            yield (
                f"{cell.variant}: no step yielded more than one token, as if speculation were off."
            )


def of_run(config: Config, cases: Sequence[Case], strangers: Sequence[str]) -> Iterator[str]:
    """The notes on a whole run; ``strangers`` are test cases that only the ledger names."""
    if config.stand_in is not None:
        yield (
            f"A rehearsal: {config.stand_in} stood in for the services. "
            "Times, speed-ups and costs are theirs and say nothing about Trainium."
        )
    for variant in config.variants:
        if all(case.cell(variant.name).requests == 0 for case in cases):
            yield f"{variant.name} was not measured at all: the ledger has no request of it."
    unfinished = [case.name for case in cases if not all(cell.complete for cell in case.cells)]
    if unfinished:
        amount = wording.count(len(unfinished), "case")
        names = ", ".join(unfinished)
        yield f"The run is not complete: requests are missing in {amount} ({names})."
    if strangers:
        names = ", ".join(strangers)
        yield f"Test cases left out because the configuration does not name them: {names}."


def _on_amount(load: Load, cell: Cell) -> Iterator[str]:
    expected = load.requests * load.rounds.at_most
    # llmperf keeps its concurrency up until it has all answers; what is in flight then ends too.
    overshoot = load.rounds.at_most * (load.concurrency - 1)
    if 0 < cell.requests < expected:
        yield f"{cell.variant}: {cell.requests} of {expected} requests were recorded."
    if cell.requests > expected + overshoot:
        yield (
            f"{cell.variant}: {cell.requests} requests were recorded instead of {expected}, "
            "because requests that ended before an interruption count too."
        )


def _on_answers(cell: Cell) -> Iterator[str]:
    if cell.errors > 0:
        yield (
            f"{cell.variant}: {cell.errors} of {cell.requests} requests failed, "
            f"most often with: {(cell.most_frequent_error or '').rstrip('.')}."
        )
    if cell.measure(metrics.INTER_CHUNK_LATENCY) is not None and cell.steps is None:
        yield (
            f"{cell.variant}: the server gave no token count per chunk, "
            "so the first chunk counts as one token."
        )


def _on_lengths(baseline: Cell, cell: Cell) -> Iterator[str]:
    samples = [one.measure(metrics.OUTPUT_TOKENS) for one in (baseline, cell)]
    lengths = [sample.p50 for sample in samples if sample is not None]
    if len(lengths) == 2 and max(lengths) > min(lengths) * (1 + _LENGTH_TOLERANCE):
        yield (
            f"{baseline.variant} wrote {lengths[0]:,.0f} tokens and {cell.variant} "
            f"{lengths[1]:,.0f} (medians): compare them per token, not end to end."
        )
