"""Rules on which variants an experiment has: those that ``speculation`` lists, or a sweep's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from experiment.errors import ABSENT, Refusal
from experiment.rules.rule import Refusals, Rule
from experiment.runtimes import RUNTIMES, Preparation
from experiment.schema import Experiment
from experiment.variants import variants


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


def names_distinct(experiment: Experiment) -> Refusals:
    """No two variants have one name. A sweep makes its names, and makes them distinct."""
    names = Counter(speculation.name.lower() for speculation in experiment.speculation or ())
    baselines = {v.name.lower() for v in variants(experiment) if v.baseline is None} | {"base"}
    for index, speculation in enumerate(experiment.speculation or ()):
        name, field = speculation.name, f"speculation[{index}].name"
        if name.lower() in baselines:
            yield Refusal(field, name, "is reserved for a baseline")
        if names[name.lower()] > 1:
            yield Refusal(field, name, "is duplicated; must be unique, ignoring case")


RULES: Final[Mapping[Rule, tuple[Rule, ...]]] = {
    one_way: (),
    names_distinct: (),
    _rounds: (one_way,),
    _compiled_ahead: (one_way,),
}
