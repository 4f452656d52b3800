"""How the speed-up differs from prompt to prompt, and from class to class."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, quantiles, variance
from typing import Final

from spectap.analysis.compared import claims, prompts
from spectap.analysis.compared.prompts import Sending
from spectap.analysis.estimates.estimate import Estimate
from spectap.analysis.summary import OfClass, Spread
from spectap.load_points import LoadPoint
from spectap.record import Record

_TENTHS: Final = 10
"""Fewer prompts have no tenth to speak of."""

_REPETITIONS: Final = 10
"""How many sendings beyond the first of each prompt show how much of a spread is chance."""


def spread(
    own: Sequence[Record],
    baseline: Sequence[Record],
    *,
    load: LoadPoint | None,
    alpha: float,
    planned: bool = True,
    widened: Callable[[Estimate], Estimate] = lambda estimate: estimate,
) -> Spread | None:
    """Over the prompts that both sides answered; None where there are none with names.

    ``alpha`` is the level of the classes' intervals. ``planned``: whether there were to be rounds.
    ``widened`` adds to a class's estimate what the rounds do not show.
    """
    if not prompts.named(own, baseline):
        return None
    ratios = claims.values(claims.speed_up, prompts.sendings(own, baseline))
    if not ratios:
        return None
    classes = {record.prompt: record.prompt_class for record in own}
    logs = prompts.by_prompt({sending: math.log(ratio) for sending, ratio in ratios.items()})
    means = sorted((fmean(values), prompt) for prompt, values in logs.items())
    return Spread(
        variant=own[0].variant,
        baseline=baseline[0].variant,
        load=load,
        prompts=tuple((prompt, classes[prompt], math.exp(log)) for log, prompt in means),
        classes=tuple(_classes(ratios, classes, alpha, planned, widened)),
        sentence=_sentence(logs),
    )


def _classes(
    ratios: Mapping[Sending, float],
    classes: Mapping[str, str],
    alpha: float,
    planned: bool,
    widened: Callable[[Estimate], Estimate],
) -> list[OfClass]:
    of_class: dict[str, dict[Sending, float]] = defaultdict(dict)
    for sending, ratio in ratios.items():
        of_class[classes[sending[0]]][sending] = ratio
    found = []
    for name, own in sorted(of_class.items()):
        estimate = prompts.mean(own, planned=planned)
        interval = widened(estimate).interval(alpha) if estimate else None
        found.append(OfClass(name, len({prompt for prompt, _ in own}), interval))
    return found


def _sentence(logs: Mapping[str, Sequence[float]]) -> str:
    """How the prompts differ: by more than chance, where it can be told from it."""
    means, part = [fmean(values) for values in logs.values()], _part_of_prompts(logs)
    fewest, most = (bound(map(len, logs.values())) for bound in (min, max))
    if part == 0:
        common = math.exp(fmean(means))
        how = f"{_times(common)} {'faster' if common >= 1 else 'slower'}"
        return f"All {len(means)} prompts are about {how}: they differ by no more than chance."
    if part is None:
        said = _quantiles(means)
        sent = "Each was sent once" if most == 1 else "Few were sent more than once"
        return f"{said} {sent}, so some of that is chance."
    # What scatters by chance makes a spread wider. Drawn together by as much, the prompts' own
    # speed-ups have the spread that is theirs (Louis, Journal of the American Statistical
    # Association 79, 1984).
    middle = fmean(means)
    said = _quantiles([middle + math.sqrt(part) * (mean - middle) for mean in means])
    times = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"{said} Each was sent {times} times; what is chance in that is taken out."


def _part_of_prompts(logs: Mapping[str, Sequence[float]]) -> float | None:
    """The part of the scatter over prompts that is not chance; None where nobody can tell."""
    freedom = sum(len(values) - 1 for values in logs.values())
    if freedom < _REPETITIONS or len(logs) < 2:
        return None
    within = (
        sum((value - fmean(values)) ** 2 for values in logs.values() for value in values) / freedom
    )
    chance = within * fmean(1 / len(values) for values in logs.values())
    seen = variance(fmean(values) for values in logs.values())
    return max(0.0, 1 - chance / seen) if seen else 0.0


def _quantiles(logs: Sequence[float]) -> str:
    middle = median(logs)
    if _times(math.exp(middle)) == _times(1):
        faster = sum(log > 0 for log in logs)
        return f"Of the {len(logs)} prompts, {faster} are faster and {len(logs) - faster} slower."
    ahead = middle >= 0
    how, other = ("faster", "slower") if ahead else ("slower", "faster")
    said = f"Half of the {len(logs)} prompts are over {_times(math.exp(middle))} {how}"
    if len(logs) >= _TENTHS:
        said += _ends(logs, ahead=ahead)
    across = sum((log < 0) == ahead and log != 0 for log in logs)
    others = "none is" if across == 0 else f"{across} {'is' if across == 1 else 'are'}"
    return f"{said}; {others} {other}."


def _ends(logs: Sequence[float], *, ahead: bool) -> str:
    """What the fastest and the slowest tenth are beyond; first that on the side of the median."""
    slowest, *_, fastest = quantiles(logs, n=_TENTHS, method="inclusive")
    far, near = (fastest, slowest) if ahead else (slowest, fastest)
    ends, other = (
        (("fastest", "slowest"), "slower") if ahead else (("slowest", "fastest"), "faster")
    )
    said = f", the {ends[0]} tenth over {_times(math.exp(far))}, the {ends[1]} "
    times = _times(math.exp(near))
    if (near >= 0) == ahead or times == _times(1):
        return f"{said}under {times}"
    return f"{said}over {times} {other}"


def _times(ratio: float) -> str:
    return f"{max(ratio, 1 / ratio):.2f}x"
