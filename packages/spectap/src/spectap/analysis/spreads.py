"""How far the speed-up of a set's prompts differs, where it surely does."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from math import log, log1p, sqrt

from scipy.special import fdtrc

from spectap.analysis import contrasts
from spectap.analysis.contrasts import Sending, mean_over_prompts
from spectap.analysis.estimates.estimate import MARGIN
from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.evidence import Evidence
from spectap.analysis.grouping import CellKey
from spectap.load_points import FEWEST_ROUNDS

Classes = tuple[tuple[str, Interval], ...]


def spread(evidence: Evidence, key: CellKey) -> tuple[Classes, float]:
    """Speed-ups by class of prompt, and the share of prompts that gain nothing while others do.

    None and 0 where they do not surely differ.
    """
    contrast, plan = evidence.contrasts.get(key), evidence.plan
    sides = evidence.sides(key, plan.compared[key.variant]) if contrast else ((), ())
    if contrast is None or not contrasts.names_prompts(*sides):
        return (), 0.0
    alpha = plan.alpha / len(evidence.contrasts)
    value = contrasts.whole_speed_up if contrast.longer else contrasts.speed_up
    ratios = defaultdict[str, dict[Sending, float]](dict)
    for sending, unit in contrasts.sendings(*sides).items():
        if ratio := value(unit):
            ratios[unit[0][0].prompt_class][sending] = ratio
    means = {name: mean_over_prompts(of_class) for name, of_class in ratios.items()}
    classes = {name: mean.interval(alpha) for name, mean in means.items() if mean}
    lows, highs = ([getattr(each, end) for each in classes.values()] for end in ("low", "high"))
    differ = classes and max(lows) > (1 + MARGIN) * min(highs)
    every = {sending: ratio for of_class in ratios.values() for sending, ratio in of_class.items()}
    return tuple(classes.items()) if differ else (), _idle(every, alpha)


def _idle(ratios: Mapping[Sending, float], alpha: float) -> float:
    prompts = defaultdict[str, list[float]](list)
    for (prompt, _), ratio in ratios.items():
        prompts[prompt].append(log(ratio))
    several = [logs for logs in prompts.values() if len(logs) >= FEWEST_ROUNDS]
    if len(several) < FEWEST_ROUNDS:
        return 0.0
    grand = statistics.fmean(map(statistics.fmean, several))
    freedom = sum(len(logs) - 1 for logs in several)
    within = sum(statistics.variance(logs) * (len(logs) - 1) for logs in several) / freedom
    between = sum(len(logs) * (statistics.fmean(logs) - grand) ** 2 for logs in several)
    between /= len(several) - 1
    if within and fdtrc(len(several) - 1, freedom, between / within) > alpha:
        return 0.0
    reach = log1p(MARGIN)
    return statistics.fmean(
        statistics.fmean(logs) - sqrt(within / len(logs)) < reach for logs in several
    )
