"""Lays out the costs of an experiment for a terminal of any width."""

import io
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.table import Table

from experiment.cost import Cost, CostGroup, compile_guard_hours, cost, guard_hours
from experiment.cost.prices import HOURS_PER_MONTH
from experiment.schema import CompileNode, Experiment, Purchase

_NARROWEST: Final = 76
"""The narrowest table by hour that also has room for dearer nodes."""

Rows = Iterator[tuple[str, ...]]


def page(experiment: Experiment, file: str, width: int) -> str:
    """The text, with lines of at most ``width`` characters, but at least 76."""
    costs, text = cost(experiment), io.StringIO()
    console = Console(file=text, width=max(width, _NARROWEST), highlight=False, markup=False)
    console.print(
        f"{experiment.name} ({file}): {costs.hours:.2f} h and {costs.amount} by estimate, with "
        f"purchase: {experiment.capacity.purchase}, if nothing of it is there yet"
    )
    for title, figures, rows in (
        ("By hour", (2, 3, 4), _by_hour(costs)),
        ("By stage", (1, 2, 3), _by_stage(costs)),
        ("To buy", (), _to_buy(experiment, costs)),
        ("Afterwards", (), _afterwards(experiment, costs)),
        ("Prices and durations", (), _sources(experiment)),
    ):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for row in rows:
            table.add_row("", *row)
        for column in table.columns:
            column.overflow = "fold"  # a command must not be cut
        for number in figures:
            table.columns[number + 1].justify = "right"
            table.columns[number + 1].no_wrap = True
        if table.row_count:
            console.print(f"\n{title}")
            console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _by_hour(costs: Cost) -> Rows:
    yield "", "", "USD an hour", "h", "USD"
    for part in costs.parts:
        hours = costs.hours_of(part.group)
        figures = (part.usd_per_hour, hours, hours * part.usd_per_hour)
        yield part.name, part.formula, *(f"{figure:.2f}" for figure in figures)
    yield "in all", "used" if costs.is_prepaid else "", "", "", f"{costs.usd:.2f}"
    if costs.is_prepaid:
        yield "", "to pay", "", "", f"{costs.usd_to_pay:.2f}"


def _by_stage(costs: Cost) -> Rows:
    yield "", "h", "USD an hour", "USD"
    for stage in costs.stages:
        figures = (stage.hours, stage.usd_per_hour, stage.usd)
        yield stage.name, *(f"{figure:.2f}" for figure in figures)
    yield "in all", f"{costs.hours:.2f}", "", f"{costs.usd:.2f}"


def _to_buy(experiment: Experiment, costs: Cost) -> Rows:
    """What to buy: the file's Capacity Block, or what to try if nothing is offered on demand."""
    capacity, hours = experiment.capacity, costs.hours_of(CostGroup.TRAINIUM)
    usd = capacity.price.usd_per_hour
    if capacity.purchase is Purchase.ON_DEMAND:
        yield "on demand", "often refused; docs/cost.md has what was seen on spot and of blocks"
    elif not costs.is_prepaid:
        return
    if not costs.is_prepaid and capacity.price.purchase is not Purchase.CAPACITY_BLOCK:
        return
    yield (
        "Capacity Block",
        f"{costs.block_hours:.4g} h x {capacity.nodes} {capacity.instance_type} x {usd:g} = "
        f"{costs.block_hours * capacity.nodes * usd:.2f} USD, prepaid: the shortest in whole days "
        f"that holds {hours:.2f} h, {costs.usd_with_block:.2f} USD in all. A block ends at "
        "11:30 UTC, and EKS takes its nodes 40 minutes before; one that begins at once is shorter",
    )
    if experiment.aws.tags:
        tags = ",".join(f"{{Key={key},Value={value}}}" for key, value in experiment.tags.items())
        yield (
            "its tags",
            "aws ec2 purchase-capacity-block ... --tag-specifications "
            f"'ResourceType=capacity-reservation,Tags=[{tags}]'",
        )


def _afterwards(experiment: Experiment, costs: Cost) -> Rows:
    yield (
        "between runs",
        f"without Trainium nodes {costs.idle_usd_per_hour:.2f} USD an hour: x {HOURS_PER_MONTH} h "
        f"= {HOURS_PER_MONTH * costs.idle_usd_per_hour:.0f} USD a month, until the stacks are "
        "deleted",
    )
    most, needed = guard_hours(experiment), costs.hours_of(CostGroup.TRAINIUM)
    usd_per_hour = sum(p.usd_per_hour for p in costs.parts if p.group is CostGroup.TRAINIUM)
    yield (
        "guard",
        f"a schedule ends the Trainium nodes {most:.4g} h after they are ready, whatever becomes "
        f"of the run: at most {most:.4g} h x {usd_per_hour:.2f} = {most * usd_per_hour:.2f} USD",
    )
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
    if not experiment.capacity.stops_after_run:
        yield "after the run", "the Trainium nodes stay until they are stopped, or until the guard"
    if experiment.capacity.purchase is Purchase.RESERVATION:
        yield "reserved", "its hours are paid for whether the nodes stand or not"


def _sources(experiment: Experiment) -> Rows:
    price = experiment.capacity.price
    yield (
        experiment.capacity.instance_type,
        f"{price.usd_per_hour:.4f} USD an hour; {experiment.price_description}; "
        f"read on {price.as_of} in: {price.source}",
    )
    yield (
        "others",
        "list prices of us-east-2 or us-east-1, which other regions exceed: "
        "experiment/cost/prices.py",
    )
    yield "durations", "assumptions, none measured by this project: docs/cost.md"
    yield "not counted", "NAT traffic, S3, CloudWatch and ECR: docs/cost.md"
