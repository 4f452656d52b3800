"""How long each stage of ``make experiment`` takes, and what stands meanwhile.

If nothing is there yet: a stage that finds what it makes takes no time. The constants are
assumptions, like those of ``experiment.estimate``: this project has measured none of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from experiment.cost.standing import ALWAYS, Standing, most_nodes, usd_per_hour
from experiment.estimate import (
    COMPILE_SECONDS,
    FIRST_START_SECONDS,
    START_SECONDS,
    estimate,
    index_seconds,
    measuring_seconds,
    turn_seconds,
)
from experiment.schema import CompileNode, Experiment
from experiment.variants import variants

DEPLOY_SECONDS: Final = 30 * 60
"""All stacks: a control plane of EKS takes 10 to 15 minutes, and what follows waits for it."""

DOWNLOAD_MIBPS: Final = 100
"""From the Hub to the bucket, a file at a time, in and out over the network of one m7i.xlarge."""

CPU_NODE_SECONDS: Final = 5 * 60
"""From the request to a node that takes pods."""

TRAINIUM_NODE_SECONDS: Final = 15 * 60
"""The same, until its devices are offered."""

FIRST_START_USUAL_SECONDS: Final = 20 * 60
"""Longest of what is documented for a model of 70 billion parameters; the probe allows
``FIRST_START_SECONDS``."""

STOP_SECONDS: Final = 5 * 60
"""From the last result to the end of the instance."""


@dataclass(frozen=True)
class Stage:
    """One stage: its name is that of ``make experiment``."""

    name: str
    seconds: float
    standing: frozenset[Standing]
    usd_per_hour: float
    """What stands meanwhile, all of it."""
    why: str
    """Where its time comes from."""

    @property
    def hours(self) -> float:
        """Its time."""
        return self.seconds / 3600

    @property
    def usd(self) -> float:
        """Hours x what stands an hour."""
        return self.hours * self.usd_per_hour

    @property
    def formula(self) -> str:
        """E.g. ``0.86 h x 36.53``."""
        return f"{self.hours:.2f} h x {self.usd_per_hour:.2f}"


def stages(experiment: Experiment) -> tuple[Stage, ...]:
    """Those that take time, in their order."""
    return tuple(
        Stage(name, seconds, standing, usd_per_hour(experiment, standing), why)
        for name, seconds, standing, why in _stages(experiment)
    )


def _stages(experiment: Experiment) -> Iterator[tuple[str, float, frozenset[Standing], str]]:
    cheap = ALWAYS
    trainium = ALWAYS | {Standing.TRAINIUM}
    yield ("deploy", DEPLOY_SECONDS, cheap, _minutes(DEPLOY_SECONDS))
    gib = checkpoints_gib(experiment)
    download = gib * 1024 / DOWNLOAD_MIBPS
    yield ("download", download, cheap, f"{gib:.1f} GiB at {DOWNLOAD_MIBPS} MiB a second")
    if experiment.compile_node is CompileNode.CPU:
        node_count = most_nodes(experiment)[Standing.COMPILE]
        seconds, why = _compiling(experiment, node_count)
        standing = ALWAYS | {Standing.COMPILE}
        ready = f", after {_minutes(CPU_NODE_SECONDS)} for the nodes"
        yield ("compile", CPU_NODE_SECONDS + seconds, standing, why + ready)
    yield ("start", TRAINIUM_NODE_SECONDS, trainium, _minutes(TRAINIUM_NODE_SECONDS))
    if experiment.compile_node is CompileNode.TRAINIUM:
        seconds, why = _compiling(experiment, experiment.capacity.nodes)
        yield ("compile", seconds, trainium, why)
    if not experiment.apart:
        seconds, why = _serving(experiment)
        yield ("serve", seconds, trainium, why)
    yield ("benchmark", measuring_seconds(experiment), trainium, _measured(experiment))
    yield ("stop", STOP_SECONDS, trainium, _minutes(STOP_SECONDS))


def checkpoints_gib(experiment: Experiment) -> float:
    """Weights that the download Job fetches: each checkpoint once."""
    drafts = (variant.draft for variant in variants(experiment))
    checkpoints = {(m.id, m.revision): m for m in (experiment.models.target, *drafts) if m}
    return sum(model.known.checkpoint_gib for model in checkpoints.values())


def _compiling(experiment: Experiment, nodes: int) -> tuple[float, str]:
    """Each node compiles one graph at a time."""
    graphs = len({variant.artifact for variant in variants(experiment)})
    at_once = min(graphs, nodes)
    why = f"{_counted(graphs, 'graph')}, {at_once} at a time, {_minutes(COMPILE_SECONDS)} each"
    return math.ceil(graphs / nodes) * COMPILE_SECONDS, why


def _serving(experiment: Experiment) -> tuple[float, str]:
    if experiment.compile_node is None:
        usual, most = _minutes(FIRST_START_USUAL_SECONDS), FIRST_START_SECONDS / 3600
        return FIRST_START_USUAL_SECONDS, f"a first start: {usual}, and at most {most:g} h"
    return START_SECONDS, f"{_minutes(START_SECONDS)}: graph and weights to local disk, and loading"


def _measured(experiment: Experiment) -> str:
    """What is measured, and how long each takes."""
    load, measured = experiment.benchmark, variants(experiment)
    if experiment.apart:
        longest = max(map(index_seconds, measured))
        at_once = estimate(experiment).at_once
        return f"{len(measured)} variants, {at_once} at a time, up to {_minutes(longest)} each"
    turns = " + ".join(f"{seconds:.0f}" for seconds in max(map(turn_seconds, measured), key=sum))
    most = load.rounds.at_most
    rounds = _counted(most, "round") if load.rounds.at_least == most else f"up to {most} rounds"
    cases = _counted(len(load.test_cases), "test case")
    return f"{rounds} x {cases} x ({turns} s), and a warm-up"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
