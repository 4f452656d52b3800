"""A mean over prompts that have names, and how far it can be trusted.

A speed-up differs from prompt to prompt, and what slows one side in a round slows all its prompts
there. So neither prompts nor requests are independent by themselves. The error has both parts, the
one of the prompts and the one of the rounds: it is clustered by both (Cameron, Gelbach and Miller,
Robust inference with multiway clustering, Journal of Business and Economic Statistics 29, 2011).
Where each prompt is sent in one round only, the rounds' part holds the prompts' as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from spectap.analysis import units
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.units import Unit
from spectap.record import Record
from spectap.rounds import FEWEST_ROUNDS

Sending = tuple[str, tuple[str, int]]
"""A prompt, and the round it was sent in, by run and number."""


def named(*sides: Sequence[Record]) -> bool:
    """Whether each request names its prompt."""
    return all(side and all(record.prompt for record in side) for side in sides)


def sendings(*sides: Sequence[Record]) -> dict[Sending, Unit]:
    """What each side did with a prompt in a round, where all of them were asked it there."""
    found: dict[Sending, Unit] = {}
    for round_, unit in units.rounds(*sides).items():
        sides_by_prompt = [_requests(side) for side in unit]
        for prompt in sorted(set.intersection(*map(set, sides_by_prompt))):
            found[prompt, round_] = tuple(side[prompt] for side in sides_by_prompt)
    return found


def mean(ratios: Mapping[Sending, float], *, planned: bool = True) -> Estimate | None:
    """The geometric mean over prompts of the ratio of each, which is that of its sendings.

    It is as sure as the fewer of prompts and rounds allow. Where nobody ``planned`` rounds and
    there are too few, the prompts alone say how sure. None for fewer than ``FEWEST_ROUNDS``.
    """
    logs = {sending: math.log(ratio) for sending, ratio in ratios.items()}
    prompts, rounds = by_prompt(logs), {round_ for _, round_ in logs}
    if planned or len(rounds) >= FEWEST_ROUNDS:
        count = min(len(prompts), len(rounds))
    else:
        count = len(prompts)
    if count < FEWEST_ROUNDS:
        return None
    log = _mean([_mean(own) for own in prompts.values()])
    pulls = {
        sending: (value - log) / len(prompts[sending[0]]) / len(prompts)
        for sending, value in logs.items()
    }
    of_rounds = _clustered(pulls, lambda sending: sending[1])
    return Estimate(log, math.sqrt(of_rounds + beyond_rounds(pulls)), count)


def beyond_rounds(pulls: Mapping[Sending, float]) -> float:
    """What prompts that come in several rounds add to the variance of a figure over rounds.

    ``pulls`` is by how much each sending pulls the figure off where it is. Other rounds with the
    same prompts do not show how other prompts would differ; other prompts in other rounds do.
    """
    of_prompts = _clustered(pulls, lambda sending: sending[0])
    return max(0.0, of_prompts - _clustered(pulls, lambda sending: sending))


def by_prompt(logs: Mapping[Sending, float]) -> dict[str, list[float]]:
    """The values of each prompt, over its sendings."""
    found = defaultdict(list)
    for (prompt, _), log in logs.items():
        found[prompt].append(log)
    return found


def _clustered(pulls: Mapping[Sending, float], cluster: Callable[[Sending], Hashable]) -> float:
    """The variance of a mean whose clusters are independent."""
    sums: dict[Hashable, float] = defaultdict(float)
    for sending, pull in pulls.items():
        sums[cluster(sending)] += pull
    count = len(sums)
    return count / (count - 1) * math.fsum(one**2 for one in sums.values()) if count > 1 else 0.0


def _requests(records: Iterable[Record]) -> Mapping[str, list[Record]]:
    found = defaultdict(list)
    for record in records:
        found[record.prompt].append(record)
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
