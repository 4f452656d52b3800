"""What a rehearsal says of its golden endpoints, for a reader to check its findings against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from experiment import Experiment
from experiment.variants import Variant, variants
from rehearsal.golden.acceptances import OF_STRUCTURE, of_class
from rehearsal.golden.arithmetic import LONGEST, best, decoding, gain
from rehearsal.golden.cost import Cost
from rehearsal.golden.drafts import draft_of
from rehearsal.golden.schedule import Decoding, crossover
from rehearsal.prompts import prompts_of


def said(experiment: Experiment, cost: Cost) -> Iterator[str]:
    """How a pass grows, then a line for each draft and batch. Raises RehearsalError."""
    yield f"a pass {cost.words}"
    yield f"best: of the windows up to {LONGEST}"
    of_draft: dict[tuple[str, int], list[Variant]] = defaultdict(list)
    for variant in variants(experiment):
        if variant.baseline is not None:
            of_draft[_name(variant), variant.batch].append(variant)
    rates = dict(_rates(experiment))
    for (name, batch), own in of_draft.items():
        draft, schedule = draft_of(own[0]), decoding(own[0], cost)
        in_flight = min(experiment.benchmark.points[0].concurrency or 1, batch)
        single = own[0].window if len(own) == 1 else None
        accepted = {text: draft.acceptance(rate) for text, rate in rates.items()}
        gains = _gain if draft.at_once > 1 else partial(_gains, single=single)
        texts = "; ".join(
            f"{text}, {rate:.1%} accepted, {gains(schedule, rate, in_flight, batch)}"
            for text, rate in accepted.items()
        )
        yield (
            f"{name}, batch {batch}: a draft takes {draft.cost:.1%} of a pass; with {in_flight} in "
            f"flight: {texts}"
        )


def _name(variant: Variant) -> str:
    return variant.draft.id.rpartition("/")[2] if variant.draft else str(variant.mode)


def _gains(
    schedule: Decoding, acceptance: float, in_flight: int, batch: int, single: int | None
) -> str:
    """The best window and what it gains; before it the window that is served, if it is one."""
    found = best(schedule, acceptance, in_flight)
    shown = [f"best {_gain(found, acceptance, in_flight, batch)}"]
    if single is not None and single != found.window:
        served = replace(schedule, window=single)
        shown.insert(0, _gain(served, acceptance, in_flight, batch))
    return ", ".join(shown)


def _gain(own: Decoding, acceptance: float, in_flight: int, batch: int) -> str:
    text = f"{gain(own, acceptance, in_flight):.2f}x with window {own.window}"
    at = crossover(own.plain, own, acceptance, batch)
    return text if at is None else f"{text} (and 1x with {at:.1f} in flight)"


def _rates(experiment: Experiment) -> Iterator[tuple[str, float]]:
    """Acceptance of the article's draft by the kind of text."""
    for case in experiment.benchmark.test_cases:
        if case.is_line and case.structure is not None:
            yield f"{case.structure} text", OF_STRUCTURE[case.structure]
        elif not case.is_line:
            for name in dict.fromkeys(p.prompt_class for p in prompts_of(experiment, case)):
                yield name or case.name, of_class(name)
