"""What an experiment takes and costs is estimated before it is deployed, and follows its fields."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest
from syrupy.assertion import SnapshotAssertion

from experiment import Experiment, ExperimentError, load
from experiment.cost import (
    Cost,
    CostGroup,
    compile_guard_hours,
    cost,
    guard_hours,
    shortest_block,
    timeline,
)
from experiment.cost.prices import ALWAYS
from experiment.cost.printout import page
from experiment.cost.timeline import COMPILE_SECONDS, START_SECONDS, estimate, index_seconds
from experiment.hardware import COMPILE_INSTANCES
from experiment.loader import parse
from experiment.notes import notes
from experiment.variants import variants
from tests.experiment.files import ABSENT, EXPERIMENTS, ON_TRAINIUM, ROOT, VANILLA, edited, swept
from tests.snapshots import TextSnapshot

PRICE: Final = 35.7608
SWEEP: Final = swept(at_most_usd=1e9)
RUNNING: Final = {"start", "serve", "benchmark", "stop"}
"""The stages of services in which Trainium nodes run."""


def of(changes: Mapping[str, Any]) -> Experiment:
    return parse(edited(changes), "mine.yaml")


def costs(changes: Mapping[str, Any]) -> Cost:
    """Also of what a rule refuses, such as more nodes than there are claims for."""
    return cost(Experiment.model_validate_json(edited(changes)))


@pytest.mark.parametrize("shape", [{}, SWEEP, VANILLA])
def test_a_total_is_the_sum_of_its_parts_and_more_rounds_take_longer(shape: dict[str, Any]) -> None:
    costed = costs(shape)
    by_part = [part.usd_per_hour * costed.hours_of(part.group) for part in costed.parts]
    assert costed.usd == pytest.approx(sum(by_part))
    assert all(stage.groups >= ALWAYS for stage in costed.stages)
    assert costs(shape | {"capacity.nodes": 2}).hours <= costed.hours
    if shape is not VANILLA:  # a job has no rounds
        assert costs(shape | {"benchmark.rounds": 7}).usd > costed.usd


def test_graphs_are_compiled_before_a_trainium_node_runs() -> None:
    stages = costs({}).stages
    names = [stage.name for stage in stages]
    assert names == ["deploy", "download", "compile", "start", "serve", "benchmark", "stop"]
    assert {s.name for s in stages if CostGroup.TRAINIUM in s.groups} == RUNNING
    assert {s.name for s in stages if CostGroup.COMPILE in s.groups} == {"compile"}
    # docs/cost.md: a turn takes 37 s, of 6 rounds of ten test cases; and one warm-up.
    assert stages[5].seconds == pytest.approx((6 * 10 + 1) * 37)


def load_of(*points: dict[str, Any]) -> dict[str, Any]:
    return {"benchmark.concurrency": ABSENT, "benchmark.load": [*points]}


COMPILE_USD: Final = COMPILE_INSTANCES[-1].usd_per_hour
FOUR: Final = {"concurrency": 4, "requests": 8}


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        # The waves of a warm-up and two controls, and 60 turns: 27 s, and 10 s for llmperf.
        ({}, 3 * 37 + 60 * 37),
        # Beyond the batch, a load has waves of the batch; the warm-up and the controls, too.
        (load_of(FOUR, FOUR | {"concurrency": 8}), 3 * (10 + 2 * 27) + 60 * 2 * (10 + 2 * 27)),
        # An open loop lasts as long as it sends, and an answer longer.
        (load_of({"rate": 0.5, "seconds": 60}), 3 * 37 + 60 * (10 + 60 + 27)),
        # Spread rounds: the last of six begins when it is due, and has its ten turns.
        ({"benchmark.spread_minutes": 90}, 3 * 37 + 5400 + 10 * 37),
        ({"benchmark.spread_minutes": 9}, 3 * 37 + 60 * 37),
        ({"benchmark.requests": 400, "benchmark.timeout_seconds": 100}, 3 * 37 + 60 * 110),
    ],
)
def test_a_variant_measured_by_itself_starts_and_runs_its_turns(
    changes: dict[str, Any], seconds: float
) -> None:
    baseline = variants(of(SWEEP | changes))[0]
    assert index_seconds(baseline) == pytest.approx(START_SECONDS + seconds)


def test_a_sweep_compiles_and_then_measures_on_all_claims() -> None:
    """Four variants on two claims."""
    each = index_seconds(variants(of(SWEEP))[0]) / 3600
    compiled = COMPILE_SECONDS / 3600
    on_trainium, on_cpus = estimate(of(SWEEP | ON_TRAINIUM)), estimate(of(SWEEP))
    assert on_trainium.hours == pytest.approx(4 * compiled + 2 * each)
    assert on_trainium.usd == pytest.approx(on_trainium.hours * PRICE)
    assert on_trainium.compile_usd == 0
    # On CPUs, no Trainium node runs while graphs compile.
    assert on_cpus.hours == pytest.approx(compiled + 2 * each)
    compile_usd = 4 * compiled * COMPILE_USD
    assert on_cpus.compile_usd == pytest.approx(compile_usd)
    assert on_cpus.usd == pytest.approx(2 * each * PRICE + compile_usd)


@pytest.mark.parametrize(("mode", "tokens"), [("vanilla", 1024), ("medusa", 400)])
def test_jobs_run_one_after_the_other_and_have_time(mode: str, tokens: int) -> None:
    experiment = load(EXPERIMENTS / f"{mode}.yaml")
    each = START_SECONDS + 22 * tokens * 0.045  # the answers of a benchmark
    assert [index_seconds(v) for v in variants(experiment)] == pytest.approx([each, each])
    took = estimate(experiment)
    assert took.at_once == 1  # though the node holds two claims
    assert took.hours * 3600 == pytest.approx(COMPILE_SECONDS + 2 * each)
    assert timeline.index_deadline_seconds(experiment) == math.ceil(3 * each)
    # Every index may take as long as its deadline, after days without nodes, and compiles.
    needed = 7 * 24 * 3600 + math.ceil(3 * took.hours * 3600)
    assert timeline.job_deadline_seconds(experiment) == needed


def test_a_guard_ends_nodes_after_three_estimates_or_when_a_sweep_is_paid_off() -> None:
    article = load(EXPERIMENTS / "article.yaml")
    for group, hours in (
        (CostGroup.TRAINIUM, guard_hours(article)),
        (CostGroup.COMPILE, compile_guard_hours(article)),
    ):
        assert hours == math.ceil(3 * cost(article).hours_of(group))
    long = swept(at_most_usd=1000) | {"capacity.max_hours": 100}
    one_node, two_nodes = guard_hours(of(long)), guard_hours(of(long | {"capacity.nodes": 2}))
    assert one_node == pytest.approx((1000 - 3 * COMPILE_USD) / PRICE)
    assert two_nodes == pytest.approx(one_node / 2)


@pytest.mark.parametrize("changes", [{}, ON_TRAINIUM])
def test_a_sweep_may_cost_its_estimate_and_no_less(changes: dict[str, Any]) -> None:
    needed = math.ceil(estimate(of(SWEEP | changes)).usd)
    enough = of(swept(at_most_usd=needed) | changes)
    assert guard_hours(enough) * PRICE >= estimate(enough).usd - estimate(enough).compile_usd
    with pytest.raises(ExperimentError, match=f"must be at least {needed}, the estimate"):
        of(swept(at_most_usd=needed - 1) | changes)
    # It pays for compiles and measurements, but not for the start of nodes.
    for usd, noted in ((needed, True), (needed + 20, False)):
        text = "\n".join(notes(of(swept(at_most_usd=usd) | changes)))
        assert (f"sweep.at_most_usd = {usd}, which pays for " in text) is noted


BLOCK: Final = {
    "capacity.purchase": "capacity-block",
    "capacity.reservation_id": "cr-0123456789abcdef0",
    "aws.tags": {"owner": "me"},
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        BLOCK,
        # What no other way to buy is known for, and what its guard ends before its end.
        {"capacity.price.purchase": "on-demand", "capacity.max_hours": 1},
        {"capacity.purchase": "spot", "capacity.max_hours": 3},
    ],
    ids=["article", "block", "on-demand", "spot"],
)
def test_the_page(changes: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert page(of(changes), "mine.yaml", 120) == snapshot(extension_class=TextSnapshot)


def test_the_page_fits_the_terminal_and_its_totals_are_the_costs() -> None:
    narrow = page(of(BLOCK), "mine.yaml", 60)  # with the tags of a block in a command
    assert max(map(len, narrow.splitlines())) <= 76
    assert "…" not in narrow
    costed, block = cost(of({})), cost(of(BLOCK))
    text = page(of({}), "mine.yaml", 400)
    assert re.search(f"in all +{costed.hours:.2f} +{costed.usd:.2f}", text)
    to_pay = f"{block.usd - PRICE * block.hours_of(CostGroup.TRAINIUM) + 24 * PRICE:.2f}"
    headline, _, text = page(of(BLOCK), "mine.yaml", 400).partition("\n")
    assert f" {to_pay} USD ({block.usd:.2f} used; " in headline
    assert re.search(rf"to pay +{to_pay}\n", text)


def test_the_first_figure_costs_less_than_ten_dollars_on_demand() -> None:
    first = load(EXPERIMENTS / "first.yaml")
    assert first.compile_instance.name == "r7i.4xlarge"
    assert cost(first).usd_to_pay < 10


def test_a_capacity_block_holds_the_hours_and_lasts_whole_days_or_weeks() -> None:
    """EKS takes the nodes 40 minutes before the end."""
    for hours, days in ((23.33, 1), (23.34, 2), (14 * 24, 21), (181 * 24, 182)):
        assert shortest_block(hours) == days * 24


def test_the_documentation_has_each_duration() -> None:
    rows = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    for duration, value in {
        "all stacks": f"{timeline.DEPLOY_SECONDS // 60} min",
        "a CPU node": f"{timeline.CPU_NODE_SECONDS // 60} min",
        "one compile": f"{COMPILE_SECONDS // 60} min",
        "a Trainium node": f"{timeline.TRAINIUM_NODE_SECONDS // 60} min",
        "start of a server": f"{START_SECONDS // 60} min",
        "first start": f"{timeline.FIRST_START_USUAL_SECONDS // 60} min",
        "end of a node": f"{timeline.STOP_SECONDS // 60} min",
        "download": f"{timeline.DOWNLOAD_MIBPS} MiB/s",
        "one output token": f"{timeline.TOKEN_SECONDS * 1000:g} ms",
        "start of a load generator": f"{timeline.DRIVER_SECONDS} s a turn",
    }.items():
        assert f"\n| {duration} | {value} | " in rows
    assert f"the probe allows {timeline.FIRST_START_SECONDS // 3600} hours" in rows
