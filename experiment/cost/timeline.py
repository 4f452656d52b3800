"""The stages of ``make experiment``, in order, and how long each of them takes by estimate.

Nothing is taken to exist yet. A stage that finds its result takes no time. The constants are
assumptions: this project has measured none of them on Trainium (docs/cost.md).
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiment.cost.prices import ALWAYS, CostGroup, most_nodes, usd_per_hour
from experiment.hardware import compile_nodes
from experiment.runtimes import Mode, Workload
from experiment.schema import CompileNode, Experiment
from experiment.variants import Variant, checkpoints, variants
from spectap.inputs.load_points import LoadPoint
from spectap.protocol.text import EndpointType

COMPILE_SECONDS: Final = 45 * 60
"""One graph. Field reports on Trainium say 25 to 45 minutes, none of Qwen3-32B."""

FIRST_START_SECONDS: Final = 4 * 60 * 60
"""The longest time for which a service may compile at its first start, before its probe ends it."""

START_SECONDS: Final = 15 * 60
"""One server's start with a finished graph, up to the first request."""

TOKEN_SECONDS: Final = 0.045
"""One output token of one request, in a full batch, without speculation (the article)."""

DRIVER_SECONDS: Final = 10
"""The load generator's own start in each turn."""

UNCOUNTED_WAVES: Final = 3
"""Waves that do not count: a warm-up, and a control load at either end. Each is one wave at the
largest concurrency."""

WARM_UPS: Final = 1
"""Warm-up waves of services that are measured together, which have no controls."""

DEMO_ANSWERS: Final = 22
"""Answers of ``inference_demo --benchmark``: one to its prompt, a warm-up and 20 runs
(neuronx-distributed-inference v0.6.10598, ``inference_demo.py`` and ``utils/benchmark.py``)."""

GENEROUS: Final = 3
"""The factor by which jobs and nodes may exceed their estimates."""

PREPARING_SECONDS: Final = 7 * 24 * 60 * 60
"""Added to the deadline of a Job with devices. The deadline counts from the deploy, and nodes may
start days later. A Job that waits for them costs nothing."""

DEPLOY_SECONDS: Final = 30 * 60
"""All stacks: a control plane of EKS takes 10 to 15 minutes, and what follows waits for it."""

DOWNLOAD_MIBPS: Final = 100
"""From the Hub to the bucket, one file at a time, both ways over the network of one m7i.xlarge."""

CPU_NODE_SECONDS: Final = 5 * 60
"""From the request until a node takes pods."""

TRAINIUM_NODE_SECONDS: Final = 15 * 60
"""From the request until a node offers its devices."""

FIRST_START_USUAL_SECONDS: Final = 20 * 60
"""The longest documented time for a model of 70 billion parameters."""

STOP_SECONDS: Final = 5 * 60
"""From the last result to the end of the instance."""


@dataclass(frozen=True)
class Estimate:
    """Hours and USD from the first compile to the end, if the bucket is empty.

    All compiles come before all measurements (charts/preparation.py). The time to create the
    cluster and to download checkpoints is left out.
    """

    at_once: int
    """The number of variants that are measured at once: as many as nodes hold claims."""
    hours: float
    """From the first compile to the end of the last variant."""
    compile_usd: float
    """USD of the CPU nodes, which run until the last compile ends."""
    usd: float
    """USD in all: ``compile_usd`` and the Trainium nodes, which run until the end."""


def estimate(experiment: Experiment) -> Estimate:
    """Estimates an ``experiment`` whose variants are each measured alone."""
    capacity, claims = experiment.capacity, _claims(experiment)
    seconds = [index_seconds(variant) for variant in variants(experiment)]
    count = len(seconds)
    cpu_nodes = compile_nodes(count) if experiment.compile_node is CompileNode.CPU else 0
    compiling = math.ceil(count / (cpu_nodes or capacity.nodes)) * COMPILE_SECONDS / 3600
    running = _measuring(seconds, claims) / 3600
    node_hours = capacity.nodes * (running if cpu_nodes else compiling + running)
    compile_usd = cpu_nodes * compiling * experiment.compile_instance.usd_per_hour
    usd = compile_usd + node_hours * capacity.price.usd_per_hour
    return Estimate(min(claims, count), compiling + running, compile_usd, usd)


def job_deadline_seconds(experiment: Experiment) -> int:
    """The seconds that a Job with devices may take, from the deploy to its last index."""
    return PREPARING_SECONDS + math.ceil(GENEROUS * estimate(experiment).hours * 3600)


def index_deadline_seconds(experiment: Experiment) -> int:
    """The seconds for which one index of jobs may hold its devices, from its pod's start."""
    return math.ceil(GENEROUS * max(map(index_seconds, variants(experiment))))


def index_seconds(variant: Variant) -> float:
    """The seconds for which one variant holds its claim: start, turns, ``UNCOUNTED_WAVES``."""
    experiment = variant.experiment
    if experiment.workload is not Workload.JOB:
        return START_SECONDS + _load_seconds(variant, UNCOUNTED_WAVES)
    # One answer after another, without a load generator.
    medusa = experiment.speculations[0].mode is Mode.MEDUSA
    tokens = experiment.benchmark.mean_output_tokens if medusa else experiment.serving.length
    return START_SECONDS + DEMO_ANSWERS * tokens * TOKEN_SECONDS


def _load_seconds(variant: Variant, waves: int) -> float:
    """The seconds of all turns and of ``waves`` at the largest concurrency."""
    load = variant.experiment.benchmark
    widest = max((p.concurrency for p in load.points if p.concurrency), default=variant.batch)
    wave = _turn_seconds(variant, LoadPoint(concurrency=widest, requests=widest))
    one_round = len(load.test_cases) * sum(_turns(variant))
    rounds = load.rounds.at_most
    spread = 60 * load.spread_minutes if rounds > 1 else 0
    return waves * wave + max(rounds * one_round, spread + one_round)


def _claims(experiment: Experiment) -> int:
    """The number of variants that are measured at once; one for jobs, whatever the nodes hold."""
    if experiment.workload is Workload.JOB:
        return 1
    capacity = experiment.capacity
    return capacity.nodes * (capacity.instance.devices // experiment.serving.devices)


def _turns(variant: Variant) -> list[float]:
    """The seconds of one test case in one round, at each load point.

    The built-in driver fills a closed loop before it counts, and llmperf does not.
    """
    load = variant.experiment.benchmark
    fills = load.endpoint_type is EndpointType.COMPLETIONS or any(
        case.set or case.file for case in load.test_cases
    )
    return [_turn_seconds(variant, point, point.fill * fills) for point in load.points]


def _turn_seconds(variant: Variant, point: LoadPoint, fill: int = 0) -> float:
    """The seconds of one test case at one load point in one round, at most the timeout.

    A closed loop comes in waves of its concurrency, or of the batch where that is smaller. ``fill``
    requests come before those that count.
    """
    load = variant.experiment.benchmark
    answer = load.mean_output_tokens * TOKEN_SECONDS
    if point.concurrency is None:
        seconds = point.requests / point.amount + answer
    else:
        seconds = answer * math.ceil(
            (fill + point.requests) / min(point.concurrency, variant.batch)
        )
    return DRIVER_SECONDS + min(seconds, load.timeout_seconds)


def _measuring(seconds: Sequence[float], claims: int) -> float:
    """Seconds until the last variant ends. Variants begin in order, each when a claim is free."""
    free = [0.0] * claims
    for duration in seconds:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


@dataclass(frozen=True)
class Stage:
    """One stage, with its name in ``make experiment``."""

    name: str
    seconds: float
    groups: frozenset[CostGroup]
    usd_per_hour: float
    """The price of all groups that run during the stage."""

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    @property
    def usd(self) -> float:
        return self.hours * self.usd_per_hour


def stages(experiment: Experiment) -> tuple[Stage, ...]:
    """The stages in order. Trainium nodes run only during those that need them."""
    return tuple(Stage(*each, usd_per_hour(experiment, each[2])) for each in _stages(experiment))


def _stages(experiment: Experiment) -> Iterator[tuple[str, float, frozenset[CostGroup]]]:
    """Name, seconds, and groups that run."""
    trainium, node = ALWAYS | {CostGroup.TRAINIUM}, experiment.compile_node
    gib = sum(model.resolved_architecture.checkpoint_gib for model in checkpoints(experiment))
    nodes = most_nodes(experiment)[CostGroup.COMPILE] or experiment.capacity.nodes
    graphs = len({variant.artifact for variant in variants(experiment)})
    compiling = math.ceil(graphs / nodes) * COMPILE_SECONDS
    yield "preflight", 0, ALWAYS
    yield "deploy", DEPLOY_SECONDS, ALWAYS
    yield "objects", 0, ALWAYS
    yield "download", gib * 1024 / DOWNLOAD_MIBPS, ALWAYS
    if node is CompileNode.CPU:
        yield "compile", CPU_NODE_SECONDS + compiling, ALWAYS | {CostGroup.COMPILE}
    yield "start", TRAINIUM_NODE_SECONDS, trainium
    if node is CompileNode.TRAINIUM:
        yield "compile", compiling, trainium
    if not experiment.isolated:
        yield "serve", START_SECONDS if node else FIRST_START_USUAL_SECONDS, trainium
    if experiment.isolated:
        seconds = _measuring([*map(index_seconds, variants(experiment))], _claims(experiment))
    else:  # all at once: a turn takes as long as its slowest service
        launches = experiment.benchmark.launches
        seconds = max(_load_seconds(v, WARM_UPS * launches) for v in variants(experiment))
        seconds += (launches - 1) * START_SECONDS
    yield "benchmark", seconds, trainium
    yield "stop", STOP_SECONDS, trainium
    yield "results", 0, ALWAYS
