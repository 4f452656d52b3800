"""What a sweep takes, before anything is deployed: hours, and dollars.

This project has measured none of these constants on Trainium. So notes and refusals are estimates,
and what holds the limit is the deadline of the sweep's Job (``deadline_seconds``).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmark.load_points import LoadPoint
from experiment.schema import Experiment
from experiment.variants import Variant, variants

COMPILE_SECONDS: Final = 45 * 60
"""One graph. Field reports of compiles on Trainium say 25 to 45 minutes; none is of Qwen3-32B
(docs/runbook.md)."""

START_SECONDS: Final = 15 * 60
"""One server, from a graph that is there to the first request. An index that has looked in vain is
made again after 10 s, and twice as long each further time, up to 10 minutes (``LOOKS`` in
charts/sweep.py). Then it copies the artifact, about the size of the checkpoints, to local disk, and
loads it. An assumption: nobody has published a time for 65 GiB of shards."""

TOKEN_SECONDS: Final = 0.045
"""One output token of one request, in a full batch. The article's inter-token latency of
open-ended prompts, Qwen3-32B at concurrency 4, where speculation gains nothing."""

DRIVER_SECONDS: Final = 10
"""The load generator's own start in each turn: llmperf loads its libraries and starts Ray
(docs/cost.md; not timed on m7i.xlarge)."""

UNCOUNTED_WAVES: Final = 3
"""A warm-up, and a control load at either end. Each is one wave at the largest concurrency."""


@dataclass(frozen=True)
class Estimate:
    """What a sweep takes if nothing of it is in the bucket yet, from the first compile to the end.

    A node compiles or measures, never both (charts/compilation.py). So this is all compiles, and
    then all measurements. Left out are the making of the cluster and the download of the
    checkpoints, and so is what the nodes cost if they stay for longer.
    """

    variants: int
    """Each is compiled under a key of its own, so it is the number of compiles too."""
    nodes: int
    at_once: int
    """Variants that are measured at the same time: the claims that the nodes hold, at most all."""
    measuring_hours: float
    """Hours for which variants hold a claim, all added up."""
    hours: float
    """From the first compile to the end of the last variant."""
    usd_per_hour: float
    """One node."""

    @property
    def compile_hours(self) -> float:
        """All compiles added up: variants x ``COMPILE_SECONDS``."""
        return self.variants * COMPILE_SECONDS / 3600

    @property
    def node_hours(self) -> float:
        """Nodes x hours: all nodes stand until the end."""
        return self.nodes * self.hours

    @property
    def usd(self) -> float:
        """Node hours x the price of one."""
        return self.node_hours * self.usd_per_hour

    @property
    def driver(self) -> str:
        """What takes most of the hours, in words: compiling, or measuring."""
        minutes = COMPILE_SECONDS // 60
        if self.compile_hours / self.nodes >= self.measuring_hours / self.at_once:
            return f"{self.variants} compiles of {minutes} minutes, {self.nodes} at a time"
        each = math.ceil(self.measuring_hours / self.variants * 60)
        return f"{self.variants} measurements of {each} minutes, {self.at_once} at a time"


def estimate(experiment: Experiment) -> Estimate:
    """What the sweep of ``experiment`` takes. The experiment must have a sweep."""
    found = variants(experiment)
    capacity = experiment.capacity
    claims = capacity.nodes * (capacity.instance.devices // experiment.serving.devices)
    seconds = [index_seconds(variant) for variant in found]
    return Estimate(
        variants=len(found),
        nodes=capacity.nodes,
        at_once=min(claims, len(found)),
        measuring_hours=sum(seconds) / 3600,
        hours=(_compiling(len(found), capacity.nodes) + _measuring(seconds, claims)) / 3600,
        usd_per_hour=capacity.price.usd_per_hour,
    )


def deadline_seconds(experiment: Experiment) -> int:
    """How long ``sweep.at_most_usd`` pays for all nodes. The experiment must have a sweep."""
    assert experiment.sweep is not None
    capacity = experiment.capacity
    usd_per_second = capacity.nodes * capacity.price.usd_per_hour / 3600
    return max(1, int(experiment.sweep.at_most_usd / usd_per_second))


def index_seconds(variant: Variant) -> float:
    """How long one variant holds its claim.

    It starts, and then runs rounds x test cases x load points turns, and ``UNCOUNTED_WAVES`` more.
    """
    load = variant.experiment.benchmark
    widest = max((p.concurrency for p in load.points if p.concurrency), default=variant.batch)
    wave = _turn_seconds(variant, LoadPoint(concurrency=widest, requests=widest))
    one_round = len(load.test_cases) * sum(_turn_seconds(variant, p) for p in load.points)
    return START_SECONDS + UNCOUNTED_WAVES * wave + load.rounds.at_most * one_round


def _turn_seconds(variant: Variant, point: LoadPoint) -> float:
    """One test case at one load point in one round, cut off by the timeout.

    A closed loop comes in waves of the concurrency, or of the batch where that is less. An open
    loop lasts as long as it sends, and one answer longer.
    """
    load = variant.experiment.benchmark
    answer = load.mean_output_tokens * TOKEN_SECONDS
    if point.concurrency is None:
        seconds = point.requests / point.amount + answer
    else:
        seconds = answer * math.ceil(point.requests / min(point.concurrency, variant.batch))
    return DRIVER_SECONDS + min(seconds, load.timeout_seconds)


def _compiling(graphs: int, nodes: int) -> int:
    """Seconds until the last graph is there: each node compiles one at a time."""
    return math.ceil(graphs / nodes) * COMPILE_SECONDS


def _measuring(seconds: Sequence[float], claims: int) -> float:
    """Seconds until the last variant ends. Each begins, in their order, when a claim is free."""
    free = [0.0] * claims
    for its in seconds:
        heapq.heapreplace(free, free[0] + its)
    return max(free)
