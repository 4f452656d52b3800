"""The costs of an experiment, laid out for a terminal of any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from experiment.cost import Block, Cost, CostGroup, compile_guard_hours, cost, guard_hours
from experiment.cost.durations import checkpoints_gib
from experiment.cost.prices import (
    COMPILE_NODE,
    CONTROL_PLANE,
    GP3,
    HOURS_PER_MONTH,
    NAT_TRAFFIC,
    SPOT_USD,
    STORAGE,
    SYSTEM_INSTANCE,
    SYSTEM_NODE,
)
from experiment.hardware import COMPILE_INSTANCE
from experiment.schema import CompileNode, Experiment, Purchase
from experiment.variants import variants

_GB_PER_GIB: Final = 1.024**3
_NARROWEST: Final = 76
"""What the table by hour takes, with room for dearer nodes."""


def page(experiment: Experiment, file: str, width: int) -> Iterator[str]:
    """Lines of at most ``width`` characters, and at least 76."""
    width, costs = max(width, _NARROWEST), cost(experiment)
    yield from textwrap.wrap(
        f"{experiment.name} ({file}): {costs.hours:.2f} h and {costs.amount} by estimate, if "
        "nothing of it is there yet",
        width,
    )
    yield from _section("By hour", _by_hour(costs), width, text_columns=1)
    yield from _section("By stage", _by_stage(costs), width, text_columns=0)
    if costs.block:
        yield from _section("To buy", _to_buy(costs, costs.block), width)
    yield from _section("Afterwards", _afterwards(experiment, costs), width)
    yield from _section("Not in these figures", _not_counted(experiment), width)
    yield from _section("Prices and durations", _prices(experiment), width)


def _by_hour(costs: Cost) -> Iterator[tuple[str, ...]]:
    """Each part, and the whole: what stands an hour, for how long."""
    yield "", "", "USD an hour", "h", "USD"
    for part, usd in costs.by_part.items():
        hours = costs.hours_of(part.group)
        yield part.name, part.formula, f"{part.usd_per_hour:.2f}", f"{hours:.2f}", f"{usd:.2f}"
    yield "in all", "used" if costs.block else "", "", "", f"{sum(costs.by_part.values()):.2f}"
    if costs.block:
        yield "", "to pay", "", "", f"{costs.usd_to_pay:.2f}"


def _by_stage(costs: Cost) -> Iterator[tuple[str, ...]]:
    """Each stage, and the whole: how long it takes, and what stands meanwhile."""
    yield "", "h", "USD an hour", "USD", "how long"
    for stage in costs.stages:
        figures = (stage.hours, stage.usd_per_hour, stage.usd)
        yield stage.name, *(f"{figure:.2f}" for figure in figures), stage.why
    used = "used" if costs.block else ""
    yield "in all", f"{costs.hours:.2f}", "", f"{costs.usd:.2f}", used
    if costs.block:
        yield "", "", "", f"{costs.usd_to_pay:.2f}", "to pay"


def _to_buy(costs: Cost, block: Block) -> Iterator[tuple[str, ...]]:
    """What a Capacity Block adds to what is used, and what may cost less."""
    hours = costs.hours_of(CostGroup.TRAINIUM)
    node_hours = block.instances * hours
    used, (low, high) = node_hours * block.usd_per_hour, SPOT_USD
    yield (
        "Capacity Block",
        f"{block.formula} = {block.usd:.2f} USD, prepaid; the shortest that holds {hours:.2f} h: "
        "it is sold by the day, ends at 11:30 UTC, and EKS takes its nodes 40 minutes before",
    )
    yield (
        "in all",
        f"{costs.usd:.2f} used - {used:.2f} of it in the block + {block.usd:.2f} = "
        f"{costs.usd_to_pay:.2f} USD to pay",
    )
    yield (
        "try first",
        f"capacity.purchase: spot, seen in us-east-2 at {low:.2f} to {high:.2f} USD an hour, often "
        f"not to be had: {node_hours:.2f} h x {low:.2f} = {node_hours * low:.2f} USD",
    )


def _afterwards(experiment: Experiment, costs: Cost) -> Iterator[tuple[str, ...]]:
    """What goes on, and until when."""
    yield (
        "between runs",
        f"without Trainium nodes {costs.idle_usd_per_hour:.2f} USD an hour: x {HOURS_PER_MONTH} h "
        f"= {costs.idle_usd_per_month:.0f} USD a month, until the stacks are deleted",
    )
    capacity, most = experiment.capacity, guard_hours(experiment)
    usd_per_hour = sum(p.usd_per_hour for p in costs.parts if p.group is CostGroup.TRAINIUM)
    yield (
        "guard",
        f"a schedule ends the Trainium nodes {most:.4g} h after they are ready, whatever becomes "
        f"of the run: at most {most:.4g} h x {usd_per_hour:.2f} = {most * usd_per_hour:.2f} USD",
    )
    needed = costs.hours_of(CostGroup.TRAINIUM)
    if most < needed:
        yield (
            "too early",
            f"by estimate the Trainium nodes are needed for {needed:.1f} h, so the guard ends them "
            "before the run ends",
        )
    if experiment.compile_node is CompileNode.CPU:
        yield (
            "compile nodes",
            "are removed once all graphs are there; if make experiment was ended meanwhile, "
            f"{compile_guard_hours(experiment):g} h after their start",
        )
    if not capacity.stops_after_run:
        yield "after the run", "the Trainium nodes stay until they are stopped, or until the guard"
    if capacity.purchase is Purchase.RESERVATION:
        yield "reserved", "its hours are paid for whether the nodes stand or not"


def _not_counted(experiment: Experiment) -> Iterator[tuple[str, ...]]:
    """What cannot be said beforehand, and what drives it."""
    gib, count = checkpoints_gib(experiment), len(variants(experiment))
    loaded = gib * _GB_PER_GIB * NAT_TRAFFIC.usd
    stored = gib * STORAGE.usd
    yield (
        "NAT traffic",
        f"{gib:.1f} GiB of checkpoints once, x {NAT_TRAFFIC.usd} a GB = {loaded:.2f} USD, and the "
        "images of each new node, tens of GB",
    )
    graphs = "" if experiment.compile_node is None else ", and a compiled artifact of each variant"
    yield (
        "S3",
        f"{gib:.1f} GiB of checkpoints x {STORAGE.usd} = {stored:.2f} USD a month{graphs}; results",
    )
    load = experiment.benchmark
    cells = count * len(load.test_cases) * len(load.points)
    yield (
        "CloudWatch",
        f"metrics of {cells} cells, of nodes, pods and NeuronCores while they stand; logs; "
        "dashboards and alarms",
    )


def _prices(experiment: Experiment) -> Iterator[tuple[str, ...]]:
    """Of what, how much, when and where it was read."""
    capacity, node = experiment.capacity, experiment.capacity.price
    yield (
        capacity.instance_type,
        f"{node.usd_per_hour:.4f}",
        f"an hour; {experiment.price_of}; read on {node.as_of} in: {node.source}",
    )
    on_cpus = experiment.compile_node is CompileNode.CPU
    listed = {
        SYSTEM_INSTANCE: SYSTEM_NODE,
        **({COMPILE_INSTANCE.name: COMPILE_NODE} if on_cpus else {}),
        "EKS": CONTROL_PLANE,
        "GiB of gp3": GP3,
    }
    for name, price in listed.items():
        period = "an hour" if price.unit == "hour" else "a month"
        source = f"{period}; {price.source}, {price.as_of}: https://aws.amazon.com/{price.page}/"
        yield name, f"{price.usd:.4f}", source
    source = "assumptions, none measured by this project: docs/cost.md says where each is from"
    yield "durations", "", source


def _section(
    title: str, rows: Iterator[tuple[str, ...]], width: int, text_columns: int | None = None
) -> Iterator[str]:
    """A title and a table. Columns up to ``text_columns`` and the last are words, others figures.

    The last column is folded into what the others leave of the width.
    """
    cells = [*rows]
    columns = [max(map(len, column)) for column in zip(*cells, strict=True)]
    words = {0, text_columns} if text_columns is not None else {*range(len(columns))}
    yield ""
    yield title
    for *first, last in cells:
        before = "  "
        for number, (cell, size) in enumerate(zip(first, columns, strict=False)):
            before += f"{cell:{'<' if number in words else '>'}{size}}  "
        room = max(width - len(before), 1)
        folded = textwrap.wrap(last, room, break_long_words=False) or [""]
        yield (before + folded[0]).rstrip()
        yield from (" " * len(before) + line for line in folded[1:])
