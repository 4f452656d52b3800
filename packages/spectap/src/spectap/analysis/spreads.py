"""How far the speed-up of a set's prompts differs, where it surely does."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from math import exp, log, log1p
from typing import Final

import numpy as np
from scipy.special import fdtrc

from spectap.analysis import contrasts
from spectap.analysis.contrasts import Sending, mean_over_prompts
from spectap.analysis.estimates.estimate import MARGIN
from spectap.analysis.summary import Spread
from spectap.load_points import FEWEST_ROUNDS
from spectap.record import Record

_FEWEST_PROMPTS: Final = 4
_WIDE: Final = 1.25
"""How many times more the fastest tenth gains than the slowest: less is no news."""


def spread(
    records: Sequence[Record], baseline: Sequence[Record], *, alpha: float, longer: bool
) -> Spread | None:
    """Speed-ups by class of prompt if these surely differ; or by prompt, which several rounds sent.

    ``longer``: whether whole answers are compared.
    """
    if not contrasts.names_prompts(records, baseline):
        return None
    value = contrasts.whole_speed_up if longer else contrasts.speed_up
    sendings = contrasts.sendings(records, baseline)
    ratios = {sending: ratio for sending, unit in sendings.items() if (ratio := value(unit))}
    by_class = defaultdict[str, dict[Sending, float]](dict)
    for sending, ratio in ratios.items():
        by_class[sendings[sending][0][0].prompt_class][sending] = ratio
    means = {name: mean_over_prompts(of_class) for name, of_class in by_class.items()}
    classes = {name: mean.interval(alpha) for name, mean in means.items() if mean}
    if len(classes) > 1 and max(each.low for each in classes.values()) > (1 + MARGIN) * min(
        each.high for each in classes.values()
    ):
        return Spread(classes=tuple(classes.items()))
    return _by_prompt(ratios, alpha)


def _by_prompt(ratios: dict[Sending, float], alpha: float) -> Spread | None:
    prompts = defaultdict[str, list[float]](list)
    for (prompt, _), ratio in ratios.items():
        prompts[prompt].append(log(ratio))
    several = [logs for logs in prompts.values() if len(logs) >= FEWEST_ROUNDS]
    if len(several) < max(_FEWEST_PROMPTS, len(prompts) / 2):
        return None
    means = np.array([statistics.fmean(logs) for logs in several])
    counts = np.array([len(logs) for logs in several])
    freedom = int((counts - 1).sum())
    within = sum(statistics.variance(logs) * (len(logs) - 1) for logs in several) / freedom
    grand = float(np.average(means, weights=counts))
    between = float((counts * (means - grand) ** 2).sum()) / (len(several) - 1)
    if within and fdtrc(len(several) - 1, freedom, between / within) > alpha:
        return None
    # Means of few sendings differ by chance, too: by that much less prompts themselves do.
    shrunk = grand + (means - grand) * (1 - within / between if between else 0.0) ** 0.5
    low, high = (exp(float(end)) for end in np.percentile(shrunk, (10, 90)))
    idle = float((shrunk - np.sqrt(within / counts) < log1p(MARGIN)).mean())
    return Spread(idle=idle, low=low, high=high) if high > _WIDE * low else None
