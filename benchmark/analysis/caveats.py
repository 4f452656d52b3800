"""What to know before believing a figure: gaps, failures, answers that do not compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchmark import wording
from benchmark.analysis.summary import Arm, Case
from benchmark.config import Config, Load
from benchmark.names import VARIANTS

# Answers whose lengths differ by more than this are compared per token, not as a whole.
_LENGTH_TOLERANCE: Final = 0.05


def of_case(load: Load, base: Arm, speculative: Arm) -> Iterator[str]:
    """The notes on one test case, a sentence each."""
    for arm in (base, speculative):
        yield from _of_arm(load, arm)
    yield from _on_lengths(base, speculative)
    if speculative.steps is not None and speculative.steps.mean <= 1:
        yield "SD: no step yielded more than one token, as if speculation were off."


def of_run(config: Config, cases: Sequence[Case], strangers: Sequence[str]) -> Iterator[str]:
    """The notes on a whole run; ``strangers`` are test cases that only the ledger names."""
    if config.stand_in is not None:
        yield (
            f"A rehearsal: {config.stand_in} stood in for the services. "
            "Times, speed-ups and costs are theirs and say nothing about Trainium."
        )
    for index, variant in enumerate(VARIANTS):
        if all(case.arms[index].tally.requests == 0 for case in cases):
            yield f"{variant} was not measured at all: the ledger has no request of it."
    unfinished = [case.name for case in cases if not all(arm.complete for arm in case.arms)]
    if unfinished:
        amount = wording.count(len(unfinished), "case")
        names = ", ".join(unfinished)
        yield f"The run is not complete: requests are missing in {amount} ({names})."
    if strangers:
        yield f"Left out, because the configuration does not name them: {', '.join(strangers)}."


def _of_arm(load: Load, arm: Arm) -> Iterator[str]:
    tally = arm.tally
    # llmperf keeps its concurrency up until it has all answers; what is in flight then ends too.
    overshoot = load.rounds * (load.concurrency - 1)
    if 0 < tally.requests < arm.expected:
        yield f"{tally.variant}: {tally.requests} of {arm.expected} requests were recorded."
    if tally.requests > arm.expected + overshoot:
        yield (
            f"{tally.variant}: {tally.requests} requests in place of {arm.expected}: those that "
            "ended before an interruption count too."
        )
    if tally.errors > 0:
        yield (
            f"{tally.variant}: {tally.errors} of {tally.requests} requests failed, "
            f"most often with: {tally.most_frequent_error}."
        )
    if arm.inter_chunk is not None and arm.steps is None:
        yield (
            f"{tally.variant}: the server gave no token count per chunk; "
            "the first chunk is taken for one token."
        )


def _on_lengths(base: Arm, speculative: Arm) -> Iterator[str]:
    if base.output_tokens is None or speculative.output_tokens is None:
        return
    lengths = base.output_tokens.p50, speculative.output_tokens.p50
    if max(lengths) > min(lengths) * (1 + _LENGTH_TOLERANCE):
        yield (
            f"Base wrote {lengths[0]:,.0f} tokens and SD {lengths[1]:,.0f} (medians): "
            "compare them per token, not end to end."
        )
