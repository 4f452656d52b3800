"""Rules on which variants an experiment has: those that ``speculation`` lists, or a sweep's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from experiment.errors import ABSENT, Refusal
from experiment.rules.rule import Refusals, Rule
from experiment.runtimes import RUNTIMES, Preparation
from experiment.schema import Experiment


def one_way(experiment: Experiment) -> Refusals:
    """The variants that speculate are either listed or swept."""
    if experiment.speculation is None and experiment.sweep is None:
        yield Refusal("speculation", ABSENT, "is required, or sweep in its place")
    if experiment.speculation is not None and experiment.sweep is not None:
        yield Refusal(
            "sweep",
            experiment.sweep.model_dump(mode="json", exclude_unset=True),
            "must be absent beside speculation, which lists the variants",
        )


def _rounds(experiment: Experiment) -> Refusals:
    rounds = experiment.benchmark.rounds
    if experiment.sweep is not None and not rounds.fixed:
        yield Refusal(
            "benchmark.rounds",
            rounds.model_dump(),
            "must be a number with sweep: whether a range is enough is decided on both sides of a "
            "comparison, and these are measured at different times",
        )


def _compiled_ahead(experiment: Experiment) -> Refusals:
    runtime = RUNTIMES.get(experiment.runtime)
    if experiment.sweep is None or runtime is None:
        return
    if runtime.preparation is Preparation.FIRST_START:
        yield Refusal(
            "runtime",
            runtime.name,
            "must not be one that compiles at a service's first start, with sweep: a node would "
            "compile one variant and measure another; list the variants under speculation",
        )


def listed_once(experiment: Experiment) -> Refusals:
    """A sweep lists each draft, window and batch once."""
    sweep = experiment.sweep
    if sweep is None:
        return
    drafts = [f"{draft.id}@{draft.revision}" for draft in sweep.drafts or ()]
    yield from _repeated("sweep.drafts", drafts, "draft")
    yield from _repeated("sweep.windows", sweep.windows, "window")
    yield from _repeated("sweep.batches", sweep.batches or (), "batch")


def _repeated(field: str, listed: Sequence[str | int], word: str) -> Iterator[Refusal]:
    for index, value in enumerate(listed):
        if value in listed[:index]:
            yield Refusal(f"{field}[{index}]", value, f"is duplicated; list each {word} once")


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    one_way: (),
    _rounds: (one_way,),
    _compiled_ahead: (one_way,),
    listed_once: (one_way,),
}
