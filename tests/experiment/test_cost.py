"""Costs follow the experiment: what a field moves, and what it does not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiment import Experiment, load
from experiment.cost import Cost, Standing, cost, smallest
from experiment.cost.durations import START_SECONDS, estimate
from experiment.cost.page import page
from experiment.cost.prices import ALWAYS
from experiment.loader import parse
from experiment.notes import notes
from tests.experiment.files import EXPERIMENTS, SMALL_DRAFT, VANILLA, edited, swept

SWEEP: Final = swept(at_most_usd=1e9)
THREE: Final = [
    {"name": f"K{window}", "mode": "fused", "num_speculative_tokens": window} for window in (3, 7)
]
RUNNING: Final = {"start", "serve", "benchmark", "stop"}
"""The stages of services in which Trainium nodes stand."""


def costs(changes: Mapping[str, Any]) -> Cost:
    """Also of what a rule refuses, such as more nodes than there are claims for."""
    return cost(Experiment.model_validate_json(edited(changes)))


def hours(found: Cost) -> dict[str, float]:
    return {stage.name: stage.hours for stage in found.stages}


def dollars(found: Cost) -> dict[str, float]:
    return {stage.name: stage.usd for stage in found.stages}


def rates(found: Cost) -> dict[str, float]:
    """Dollars an hour by what comes and goes together."""
    return {
        standing: sum(p.usd_per_hour for p in found.parts if p.standing is standing)
        for standing in Standing
    }


def moved(before: Mapping[str, float], after: Mapping[str, float]) -> set[str]:
    """What is there on one side only, or differs."""
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


@pytest.mark.parametrize(
    ("begun", "change", "moves_hours", "moves_rates", "moves_dollars"),
    [
        ({}, {"capacity.price.usd_per_hour": 10.0}, set(), {Standing.TRAINIUM}, RUNNING),
        ({}, {"capacity.nodes": 2}, set(), {Standing.TRAINIUM}, RUNNING),
        ({}, {"benchmark.rounds": 7}, {"benchmark"}, set(), {"benchmark"}),
        ({}, {"benchmark.mean_output_tokens": 300}, {"benchmark"}, set(), {"benchmark"}),
        ({}, {"benchmark.timeout_seconds": 20}, {"benchmark"}, set(), {"benchmark"}),
        # Of a prompt, nothing is counted.
        ({}, {"benchmark.mean_input_tokens": 128}, set(), set(), set()),
        ({}, {"models.draft": SMALL_DRAFT}, {"download"}, set(), {"download"}),
        # A third graph compiles beside the two, on a node of its own.
        ({}, {"speculation": THREE}, set(), {Standing.COMPILE}, {"compile"}),
        ({"speculation": THREE}, {"serving.batch": 2}, {"benchmark"}, set(), {"benchmark"}),
        (
            {},
            {"compiling": {"node": "trainium"}},
            {"compile"},
            {Standing.COMPILE},
            {"compile"},
        ),
        # Neither what happens if something goes wrong nor who is told costs anything by itself.
        ({}, {"capacity.max_hours": 3}, set(), set(), set()),
        # Apart, variants start their own servers, and nodes share them out.
        (SWEEP, {"capacity.nodes": 2}, {"benchmark"}, {Standing.TRAINIUM}, RUNNING - {"serve"}),
        (
            SWEEP,
            {"capacity.price.usd_per_hour": 1.0},
            set(),
            {Standing.TRAINIUM},
            RUNNING - {"serve"},
        ),
        (
            SWEEP,
            {"sweep.windows": [3, 5, 7, 15]},
            {"compile", "benchmark"},
            set(),
            {"compile", "benchmark"},
        ),
        (VANILLA, {"capacity.nodes": 2}, set(), {Standing.TRAINIUM}, RUNNING - {"serve"}),
    ],
)
def test_a_field_moves_these_figures_and_no_others(
    begun: dict[str, Any],
    change: dict[str, Any],
    moves_hours: set[str],
    moves_rates: set[str],
    moves_dollars: set[str],
) -> None:
    before, after = costs(begun), costs(begun | change)
    assert moved(hours(before), hours(after)) == moves_hours
    assert moved(rates(before), rates(after)) == moves_rates
    assert moved(dollars(before), dollars(after)) == moves_dollars
    assert (before.usd != after.usd) == bool(moves_dollars)
    # Between runs there is neither a Trainium node nor a compile node.
    assert before.idle_usd_per_hour == after.idle_usd_per_hour


priced = st.floats(0.01, 1000)
noded = st.integers(1, 8)
rounds = st.integers(1, 100)
ON_TRAINIUM: Final = {"compiling": {"node": "trainium"}}
shapes = st.sampled_from([{}, SWEEP, VANILLA, ON_TRAINIUM, SWEEP | ON_TRAINIUM])


def made(shape: dict[str, Any], price: float, nodes: int, rounds: int) -> Cost:
    own = {
        "capacity.price.usd_per_hour": price,
        "capacity.nodes": nodes,
        "benchmark.rounds": rounds,
    }
    return costs(shape | own)


@settings(deadline=None, max_examples=40)
@given(shape=shapes, price=priced, nodes=noded, rounds=rounds)
def test_the_whole_is_the_sum_of_its_stages_and_of_its_parts(
    shape: dict[str, Any], price: float, nodes: int, rounds: int
) -> None:
    found = made(shape, price, nodes, rounds)
    assert found.usd == pytest.approx(sum(found.by_part.values()))
    for stage in found.stages:
        standing = sum(p.usd_per_hour for p in found.parts if p.standing in stage.standing)
        assert stage.usd == pytest.approx(stage.hours * standing)
        assert stage.standing >= ALWAYS
    assert found.hours == pytest.approx(sum(stage.hours for stage in found.stages))


@settings(deadline=None, max_examples=40)
@given(shape=shapes, nodes=noded, rounds=rounds)
def test_more_rounds_take_longer_and_more_nodes_do_not(
    shape: dict[str, Any], nodes: int, rounds: int
) -> None:
    found = made(shape, 1, nodes, rounds)
    if rounds < 100 and shape is not VANILLA:  # a job has no rounds
        assert made(shape, 1, nodes, rounds + 1).usd > found.usd
    if nodes < 8:
        assert made(shape, 1, nodes + 1, rounds).hours <= found.hours


class TestTheStages:
    """Their order, and what stands in each."""

    def test_graphs_are_compiled_before_a_trainium_node_stands(self) -> None:
        found = costs({})
        names = [stage.name for stage in found.stages]
        assert names == ["deploy", "download", "compile", *("start", "serve", "benchmark", "stop")]
        first = next(stage for stage in found.stages if Standing.TRAINIUM in stage.standing)
        assert first.name == "start"
        compiling = {stage.name for stage in found.stages if Standing.COMPILE in stage.standing}
        assert compiling == {"compile"}

    @pytest.mark.parametrize("changes", [SWEEP, VANILLA], ids=["sweep", "jobs"])
    def test_variants_apart_start_their_own_servers(self, changes: dict[str, Any]) -> None:
        experiment = parse(edited(changes), "mine.yaml")
        found = cost(experiment)
        assert "serve" not in hours(found)
        least = START_SECONDS / 3600 * len(experiment.speculations) / estimate(experiment).at_once
        assert hours(found)["benchmark"] > least

    def test_the_benchmark_of_services_is_its_turns_and_a_warm_up(self) -> None:
        # docs/cost.md: a turn takes 37 s, of 6 rounds of ten test cases.
        assert hours(costs({}))["benchmark"] * 3600 == pytest.approx((6 * 10 + 1) * 37)


def lines(experiment: Experiment, width: int = 100) -> list[str]:
    return [*page(experiment, "mine.yaml", width)]


@pytest.mark.parametrize("name", ["article", "eagle3"])
def test_the_page_fits_the_terminal_and_says_the_figures(name: str) -> None:
    experiment = load(EXPERIMENTS / f"{name}.yaml")
    found = cost(experiment)
    for width in (76, 200):
        shown = lines(experiment, width)
        addresses = [line for line in shown if len(line) > width]
        assert all("https://" in line for line in addresses), addresses
    text = "\n".join(lines(experiment))
    for stage in found.stages:
        figures = f"{stage.hours:.2f} +{stage.usd_per_hour:.2f} +{stage.usd:.2f}"
        assert re.search(f"{stage.name} +{figures}", text)
    for part in found.parts:
        assert part.formula in text
    assert re.search(f"in all +{found.hours:.2f} +{found.usd:.2f}", text)
    assert f"{found.idle_usd_per_month:.0f} USD a month" in text


BLOCK: Final = {
    "capacity.purchase": "capacity-block",
    "capacity.reservation_id": "cr-0123456789abcdef0",
}


@pytest.mark.parametrize("changes", [{}, BLOCK], ids=["on demand without a price", "bought as one"])
def test_a_capacity_block_is_paid_by_the_day_in_every_total(changes: dict[str, Any]) -> None:
    experiment = parse(edited(changes), "mine.yaml")
    found = cost(experiment)
    node_usd = 35.7608 * found.hours_of(Standing.TRAINIUM)
    to_pay = f"{found.usd - node_usd + 24 * 35.7608:.2f}"
    text = "\n".join(lines(experiment, 400))
    assert f"({to_pay} with the whole Capacity Block) by estimate" in text.partition("\n")[0]
    assert re.search(rf"\n +to pay +{to_pay}\n", text)
    assert re.search(rf"\n +{to_pay}  to pay\n", text)
    assert "24 h x 1 trn2.48xlarge x 35.7608 = 858.26 USD, prepaid" in text
    assert "try first       capacity.purchase: spot, seen in us-east-2 at 8.60 to 15.34" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"capacity.purchase": "spot"},
        BLOCK | {"capacity.purchase": "reservation"},
        {"capacity.price.purchase": "on-demand"},
    ],
    ids=["spot", "reservation", "on demand at its price"],
)
def test_what_is_no_capacity_block_is_paid_by_the_hour(changes: dict[str, Any]) -> None:
    experiment = parse(edited(changes), "mine.yaml")
    assert cost(experiment).usd_to_pay == cost(experiment).usd
    assert "to pay" not in "\n".join(lines(experiment, 400))


@pytest.mark.parametrize(
    ("hours", "days"),
    [
        # EKS takes the nodes 40 minutes before the end.
        (23.33, 1),
        (23.34, 2),
        (13 * 24, 14),
        (14 * 24, 21),
        (28 * 24, 35),
        (181 * 24, 182),
    ],
)
def test_a_capacity_block_holds_the_hours_and_lasts_whole_days_or_weeks(
    hours: float, days: int
) -> None:
    block = smallest(parse(edited(BLOCK), "mine.yaml"), hours)
    assert block is not None
    assert block.hours == days * 24
    assert block.usd == pytest.approx(days * 858.2592)


def test_the_page_says_what_a_guard_may_cost() -> None:
    text = "\n".join(lines(parse(edited({"capacity.max_hours": 3}), "mine.yaml"), 400))
    assert "at most 3 h x 35.82 = 107.45 USD" in text
    assert "too early" not in text
    short = "\n".join(lines(parse(edited({"capacity.max_hours": 1}), "mine.yaml"), 400))
    assert "so the guard ends them before the run ends" in short


def test_a_guard_before_the_end_is_noted() -> None:
    needed = cost(load(EXPERIMENTS / "article.yaml")).hours_of(Standing.TRAINIUM)
    said = {
        hours: [
            note
            for note in notes(parse(edited({"capacity.max_hours": hours}), "mine.yaml"))
            if note.startswith("capacity.max_hours")
        ]
        for hours in (round(needed - 0.1, 2), round(needed + 0.1, 2))
    }
    short, enough = said.values()
    assert enough == []
    assert len(short) == 1
    assert f"needed for {needed:.1f} hours" in short[0]


def test_a_sweep_whose_money_ends_its_nodes_before_is_noted() -> None:
    def said(usd: float) -> list[str]:
        found = notes(parse(edited(swept(at_most_usd=usd)), "mine.yaml"))
        return [note for note in found if note.startswith(("sweep.at_most_usd", "capacity.max"))]

    # It pays for the estimate of compiles and measurements, but not for the start of nodes.
    least = math.ceil(estimate(parse(edited(SWEEP), "mine.yaml")).usd)
    (short,) = said(least)
    assert short.startswith(f"sweep.at_most_usd = {least}, which pays for ")
    assert said(least + 20) == []
