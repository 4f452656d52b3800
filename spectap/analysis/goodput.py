"""How much of a load is served as it was promised: service-level objectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, variance
from typing import Final

from scipy.special import betaincinv, stdtrit

from spectap import metrics
from spectap.analysis import units
from spectap.analysis.summary import Goodput
from spectap.config import Objectives
from spectap.metrics import Metric
from spectap.record import Record
from spectap.rounds import FEWEST_ROUNDS

PROMISED: Final = 0.9
"""The share of the requests that each objective is about: its limit is one of the p90."""

_MILLISECOND: Final = 0.001


def goodput(records: Sequence[Record], objectives: Objectives, alpha: float) -> Goodput | None:
    """The share of all requests that succeeded within every limit; None without requests.

    A limit holds where the request has no such figure: an answer of one token has no time per
    output token. ``alpha`` is the level of the interval.
    """
    if not records:
        return None
    limits = tuple(_limits(objectives))
    by_round = [_good(own, limits) for (own,) in units.rounds(records).values()]
    return Goodput(
        share=fmean(_good(records, limits)),
        interval=share_interval(by_round, units.in_flight(records), alpha),
        met=all(fmean(_good(records, [limit])) >= PROMISED for limit in limits),
    )


def share_interval(
    rounds: Sequence[Sequence[bool]], in_flight: int, alpha: float
) -> tuple[float, float] | None:
    """The interval of a share, from whether each request of each round is good.

    It is that of Korn and Graubard (Survey Methodology 24, 1998): Clopper's and Pearson's for as
    many independent requests as these are worth. They are worth less the more whole rounds differ,
    and never more than there were waves: the requests ``in_flight`` together share every step.
    None for fewer than ``FEWEST_ROUNDS`` rounds.
    """
    if len(rounds) < FEWEST_ROUNDS:
        return None
    requests = sum(map(len, rounds))
    share = sum(map(sum, rounds)) / requests
    worth = min(requests / in_flight, _worth(rounds, share, alpha))
    good = share * worth
    low = betaincinv(good, worth - good + 1, alpha / 2) if share > 0 else 0.0
    high = betaincinv(good + 1, worth - good, 1 - alpha / 2) if share < 1 else 1.0
    return float(low), float(high)


def _worth(rounds: Sequence[Sequence[bool]], share: float, alpha: float) -> float:
    """How many independent requests have the scatter that the rounds' shares have."""
    requests, count = sum(map(len, rounds)), len(rounds)
    # What each round adds to the share, beyond its part of it (a ratio of two sums).
    excess = [(sum(own) - share * len(own)) * count / requests for own in rounds]
    scatter = variance(excess) / count
    if scatter == 0:
        return float(requests)
    # The scatter is known from the rounds alone, which are fewer than the requests.
    sureness = stdtrit(requests - 1, 1 - alpha / 2) / stdtrit(count - 1, 1 - alpha / 2)
    return float(share * (1 - share) / scatter * sureness**2)


def _limits(objectives: Objectives) -> Iterator[tuple[Metric, float]]:
    """Each figure that has a limit, with that limit in seconds."""
    for metric, milliseconds in (
        (metrics.TTFT, objectives.ttft_p90_ms),
        (metrics.TIME_PER_OUTPUT_TOKEN, objectives.tpot_p90_ms),
        (metrics.END_TO_END_LATENCY, objectives.e2e_p90_ms),
    ):
        if milliseconds is not None:
            yield metric, milliseconds * _MILLISECOND


def _good(records: Iterable[Record], limits: Sequence[tuple[Metric, float]]) -> list[bool]:
    """Whether each request succeeded within the limits."""
    return [
        record.succeeded
        and all(value <= limit for metric, limit in limits for value in metric.values(record))
        for record in records
    ]
