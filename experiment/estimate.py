"""What variants that are measured apart take, before anything is deployed: hours, and dollars.

This project has measured none of these constants on Trainium. So notes and refusals are estimates,
and what holds the limit is the guard that ends the nodes (``experiment.limits``). The deadline of a
Job only ends what would otherwise wait for ever.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from experiment.hardware import COMPILE_INSTANCE, compile_nodes
from experiment.runtimes import Mode, Workload
from experiment.schema import CompileNode, Experiment
from experiment.variants import Variant, variants
from spectap.load_points import LoadPoint

COMPILE_SECONDS: Final = 45 * 60
"""One graph. Field reports of compiles on Trainium say 25 to 45 minutes; none is of Qwen3-32B
(docs/runbook.md)."""

FIRST_START_SECONDS: Final = 4 * 60 * 60
"""The most that a service may compile when it first starts, until its probe ends it. What it takes
is not published for Qwen3-32B: 15 to 20 minutes for a model twice as large (aws-neuron-sdk at
v2.32, vllm-neuron, tutorial-llama3-70b.md). One that is ended goes on, when it is made again, from
the graphs that it has finished."""

START_SECONDS: Final = 15 * 60
"""One server, from a graph that is there to the first request. An index that has looked in vain is
made again after 10 s, and twice as long each further time, up to 10 minutes (``LOOKS`` in
charts/indexes.py). Then it copies the artifact, about the size of the checkpoints, to local disk,
and loads it. An assumption: nobody has published a time for 65 GiB of shards."""

TOKEN_SECONDS: Final = 0.045
"""One output token of one request, in a full batch. The article's inter-token latency of
open-ended prompts, Qwen3-32B at concurrency 4, where speculation gains nothing."""

DRIVER_SECONDS: Final = 10
"""The load generator's own start in each turn: llmperf loads its libraries and starts Ray
(docs/cost.md; not timed on m7i.xlarge)."""

UNCOUNTED_WAVES: Final = 3
"""A warm-up, and a control load at either end. Each is one wave at the largest concurrency."""

WARM_UPS: Final = 1
"""The same of services that are measured beside each other: they have no controls."""

DEMO_ANSWERS: Final = 22
"""What ``inference_demo --benchmark`` generates: the answer to its prompt, a warm-up and 20 runs
(neuronx-distributed-inference v0.6.10598, ``inference_demo.py`` and ``utils/benchmark.py``). Each
is at most as long as was compiled, or as Medusa's command line says."""

GENEROUS: Final = 3
"""How many times longer than its estimate a job may take, and nodes may stand."""

PREPARING_SECONDS: Final = 7 * 24 * 60 * 60
"""Of the deadline of a Job with devices, for what comes before its nodes. It counts from the
deploy, and nodes may be started days later. A Job that waits for them costs nothing."""


@dataclass(frozen=True)
class Estimate:
    """What it takes if nothing of it is in the bucket yet, from the first compile to the end.

    All compiles come before all measurements: on CPU nodes because the Trainium nodes start after
    them, and on a Trainium node because it compiles or measures, never both
    (charts/preparation.py). Left out are the making of the cluster and the download of the
    checkpoints, and so is what the nodes cost if they stay for longer.
    """

    variants: int
    """Each is compiled under a key of its own, so it is the number of compiles too."""
    nodes: int
    """Trainium nodes."""
    compile_nodes: int
    """CPU nodes for compiles; 0 where the Trainium nodes compile."""
    at_once: int
    """Variants that are measured at the same time: the claims that the nodes hold, at most all."""
    measuring_hours: float
    """Hours for which variants hold a claim, all added up."""
    run_hours: float
    """From the start of the first variant to the end of the last."""
    usd_per_hour: float
    """One Trainium node."""

    @property
    def compile_hours(self) -> float:
        """All compiles added up: variants x ``COMPILE_SECONDS``."""
        return self.variants * COMPILE_SECONDS / 3600

    @property
    def until_compiled_hours(self) -> float:
        """From the first compile to the end of the last: each node compiles one at a time."""
        return math.ceil(self.variants / self.compiled_at_once) * COMPILE_SECONDS / 3600

    @property
    def compiled_at_once(self) -> int:
        """Graphs that are compiled at the same time, at most: one a node."""
        return self.compile_nodes or self.nodes

    @property
    def hours(self) -> float:
        """From the first compile to the end of the last variant."""
        return self.until_compiled_hours + self.run_hours

    @property
    def compile_node_hours(self) -> float:
        """Of CPU nodes: all stand until the last compile ends."""
        return self.compile_nodes * self.until_compiled_hours

    @property
    def node_hours(self) -> float:
        """Of Trainium nodes: all stand until the end."""
        return self.nodes * (self.run_hours if self.compile_nodes else self.hours)

    @property
    def compile_usd(self) -> float:
        """Hours of CPU nodes x the price of one."""
        return self.compile_node_hours * COMPILE_INSTANCE.usd_per_hour

    @property
    def usd(self) -> float:
        """What the CPU nodes cost, and hours of Trainium nodes x the price of one."""
        return self.compile_usd + self.node_hours * self.usd_per_hour

    @property
    def driver(self) -> str:
        """What takes most of the hours, in words: compiling, or measuring."""
        minutes = COMPILE_SECONDS // 60
        if self.compile_hours / self.compiled_at_once >= self.measuring_hours / self.at_once:
            return (
                f"{self.variants} compiles of {minutes} minutes, {self.compiled_at_once} at a time"
            )
        each = math.ceil(self.measuring_hours / self.variants * 60)
        return f"{self.variants} measurements of {each} minutes, {self.at_once} at a time"


def estimate(experiment: Experiment) -> Estimate:
    """What the variants of ``experiment`` take, of which each must be measured by itself."""
    found = variants(experiment)
    capacity = experiment.capacity
    claims = _claims(experiment)
    seconds = [index_seconds(variant) for variant in found]
    on_cpu = experiment.compile_node is CompileNode.CPU
    return Estimate(
        variants=len(found),
        nodes=capacity.nodes,
        compile_nodes=compile_nodes(len(found)) if on_cpu else 0,
        at_once=min(claims, len(found)),
        measuring_hours=sum(seconds) / 3600,
        run_hours=_measuring(seconds, claims) / 3600,
        usd_per_hour=capacity.price.usd_per_hour,
    )


def measuring_seconds(experiment: Experiment) -> float:
    """How long the measurements take, all graphs being there and all services ready.

    Variants that are measured apart start their servers meanwhile, each its own.
    """
    found = variants(experiment)
    if experiment.apart:
        return _measuring([index_seconds(variant) for variant in found], _claims(experiment))
    # All at once: a turn takes as long as its slowest service.
    return max(_load_seconds(variant, WARM_UPS) for variant in found)


def job_deadline_seconds(experiment: Experiment) -> int:
    """How long a Job whose indexes have devices may take, from the deploy to its last index."""
    return PREPARING_SECONDS + math.ceil(GENEROUS * estimate(experiment).hours * 3600)


def index_deadline_seconds(experiment: Experiment) -> int:
    """How long one index of jobs may hold its devices, from the start of its pod."""
    return math.ceil(GENEROUS * max(map(index_seconds, variants(experiment))))


def index_seconds(variant: Variant) -> float:
    """How long one variant holds its claim.

    It starts, and then runs rounds x test cases x load points turns, and ``UNCOUNTED_WAVES`` more.
    """
    if variant.experiment.workload is Workload.JOB:
        return _job_seconds(variant)
    return START_SECONDS + _load_seconds(variant, UNCOUNTED_WAVES)


def turn_seconds(variant: Variant) -> list[float]:
    """One test case in one round: how long it takes at each load point."""
    return [_turn_seconds(variant, point) for point in variant.experiment.benchmark.points]


def _load_seconds(variant: Variant, waves: int) -> float:
    """All turns, and so many waves at the largest concurrency before and after them."""
    load = variant.experiment.benchmark
    widest = max((p.concurrency for p in load.points if p.concurrency), default=variant.batch)
    wave = _turn_seconds(variant, LoadPoint(concurrency=widest, requests=widest))
    one_round = len(load.test_cases) * sum(turn_seconds(variant))
    return waves * wave + load.rounds.at_most * one_round


def _job_seconds(variant: Variant) -> float:
    """One answer after another, without a load generator."""
    experiment = variant.experiment
    medusa = variant.compared_mode is Mode.MEDUSA
    tokens = experiment.benchmark.mean_output_tokens if medusa else experiment.serving.length
    return START_SECONDS + DEMO_ANSWERS * tokens * TOKEN_SECONDS


def _claims(experiment: Experiment) -> int:
    """How many variants are measured at once, at most: of jobs one, whatever the nodes hold."""
    if experiment.workload is Workload.JOB:
        return 1
    capacity = experiment.capacity
    return capacity.nodes * (capacity.instance.devices // experiment.serving.devices)


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


def _measuring(seconds: Sequence[float], claims: int) -> float:
    """Seconds until the last variant ends. Each begins, in their order, when a claim is free."""
    free = [0.0] * claims
    for its in seconds:
        heapq.heapreplace(free, free[0] + its)
    return max(free)
