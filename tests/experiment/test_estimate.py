"""What a sweep takes is said before it is deployed."""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from experiment import Experiment, ExperimentError, load
from experiment.cost import Standing, cost
from experiment.estimate import (
    COMPILE_SECONDS,
    DEMO_ANSWERS,
    DRIVER_SECONDS,
    START_SECONDS,
    TOKEN_SECONDS,
    UNCOUNTED_WAVES,
    Estimate,
    estimate,
    index_deadline_seconds,
    index_seconds,
    job_deadline_seconds,
)
from experiment.hardware import COMPILE_INSTANCE
from experiment.limits import compile_guard_hours, guard_hours
from experiment.loader import parse
from experiment.notes import notes
from experiment.runtimes import Mode
from experiment.speculation import Sweep
from experiment.variants import variants
from spectap.load_points import Rounds
from tests.experiment.files import (
    ABSENT,
    ARTICLE,
    EXPERIMENTS,
    ON_TRAINIUM,
    VANILLA,
    edited,
    swept,
)

AnyModel = TypeVar("AnyModel", bound=BaseModel)
ARTICLE_SWEEP = EXPERIMENTS / "article-sweep.yaml"


def sweep(changes: dict[str, Any] | None = None, **its: Any) -> Experiment:
    dear = {"at_most_usd": 1e9}
    return parse(edited(swept(**dear | its) | (changes or {})), "mine.yaml")


def hours(**changes: Any) -> float:
    return estimate(sweep(changes)).hours


def seconds(**changes: Any) -> float:
    """How long the baseline holds its claim."""
    return index_seconds(variants(sweep(changes))[0])


def load_of(*points: dict[str, Any]) -> dict[str, Any]:
    return {"benchmark.concurrency": ABSENT, "benchmark.load": [*points]}


class TestAnIndex:
    """How long one variant holds its claim."""

    def test_is_its_start_its_uncounted_waves_and_its_turns(self) -> None:
        turn = DRIVER_SECONDS + 600 * TOKEN_SECONDS
        assert turn == 37  # docs/cost.md: 27 s, and 10 s for the start of the load generator
        in_all = START_SECONDS + (UNCOUNTED_WAVES + 10 * 6) * turn  # ten cases, six rounds
        assert seconds() == pytest.approx(in_all)

    def test_beyond_the_batch_has_waves_of_the_batch(self) -> None:
        within, beyond = {"concurrency": 4, "requests": 8}, {"concurrency": 8, "requests": 8}
        more = seconds(**load_of(within, beyond)) - seconds(**load_of(within))
        # The warm-up and the controls are wider, too.
        assert more == pytest.approx(60 * (10 + 2 * 27) + UNCOUNTED_WAVES * 27)

    def test_of_a_rate_lasts_as_long_as_it_sends_and_an_answer_longer(self) -> None:
        found = seconds(**load_of({"rate": 0.5, "seconds": 60}))
        wave, turn = 10 + 27, 10 + 60 + 27
        assert found == pytest.approx(START_SECONDS + UNCOUNTED_WAVES * wave + 60 * turn)

    def test_no_turn_outlasts_its_timeout(self) -> None:
        changes = {"benchmark.requests": 400, "benchmark.timeout_seconds": 100}
        found = seconds(**changes)
        assert found == pytest.approx(START_SECONDS + UNCOUNTED_WAVES * 37 + 60 * 110)


class TestTheSchedule:
    """When the last variant ends."""

    def test_on_trainium_is_all_compiles_and_then_all_measurements(self) -> None:
        """A node compiles or measures. Four variants on two claims."""
        for rounds in (1, 100):
            changes = ON_TRAINIUM | {"benchmark.rounds": rounds}
            experiment = sweep(changes, windows=[3, 7, 15])
            each = index_seconds(variants(experiment)[0])
            found, expected = estimate(experiment), 4 * COMPILE_SECONDS + 2 * each
            assert found.hours * 3600 == pytest.approx(expected)
            assert found.node_hours == found.hours
            assert found.usd == pytest.approx(found.hours * PRICE)

    def test_on_cpu_nodes_no_trainium_node_stands_while_graphs_compile(self) -> None:
        experiment = sweep(windows=[3, 7, 15])
        each = index_seconds(variants(experiment)[0])
        found = estimate(experiment)
        assert found.hours * 3600 == pytest.approx(COMPILE_SECONDS + 2 * each)
        assert found.node_hours * 3600 == pytest.approx(2 * each)
        assert found.compile_node_hours * 3600 == 4 * COMPILE_SECONDS
        expected = found.node_hours * PRICE + 3 * COMPILE_INSTANCE.usd_per_hour
        assert found.usd == pytest.approx(expected)


PRICE: Final = 35.7608
PLAIN: Final = sweep()

swept_over = st.builds(
    lambda windows, batches: Sweep(
        mode=Mode.FUSED, windows=tuple(windows), batches=batches and tuple(batches), at_most_usd=1
    ),
    windows=st.lists(st.integers(2, 15), min_size=1, max_size=5, unique=True),
    batches=st.none() | st.lists(st.sampled_from([4, 8, 16]), min_size=1, unique=True),
)
rounds = st.integers(1, 100)
nodes = st.integers(1, 8)


def changed(model: AnyModel, **changes: Any) -> AnyModel:
    return model.model_copy(update=changes)


def made(its: Sweep, rounds: int, nodes: int, devices: int = 8) -> Estimate:
    counted = Rounds(at_least=rounds, at_most=rounds)
    return estimate(
        changed(
            PLAIN,
            sweep=its,
            capacity=changed(PLAIN.capacity, nodes=nodes),
            serving=changed(PLAIN.serving, devices=devices),
            benchmark=changed(PLAIN.benchmark, rounds=counted),
        )
    )


@settings(deadline=None, max_examples=50)
@given(its=swept_over, rounds=rounds, nodes=nodes)
def test_nothing_is_quicker_than_its_parts(its: Sweep, rounds: int, nodes: int) -> None:
    found = made(its, rounds, nodes)
    compiling = math.ceil(found.variants / min(found.variants, 4)) * COMPILE_SECONDS / 3600
    assert found.hours >= compiling + found.measuring_hours / found.at_once - 1e-9
    # With one claim, nothing is measured while another is.
    assert found.hours <= found.compile_hours + found.measuring_hours
    assert found.node_hours == pytest.approx(nodes * (found.hours - compiling))
    assert found.usd == pytest.approx(
        found.node_hours * PRICE + found.compile_node_hours * COMPILE_INSTANCE.usd_per_hour
    )


class TestTheLimit:
    """``sweep.at_most_usd``."""

    def test_pays_for_the_compiles_and_then_for_all_nodes_until_the_guard_ends_them(self) -> None:
        long = {"capacity.max_hours": 100}
        one = guard_hours(sweep(long, at_most_usd=1000))
        compiles = estimate(PLAIN).compile_usd
        assert compiles == pytest.approx(3 * COMPILE_INSTANCE.usd_per_hour)
        assert one == pytest.approx((1000 - compiles) / PRICE)
        two = guard_hours(sweep(long | {"capacity.nodes": 2}, at_most_usd=1000))
        assert two == pytest.approx(one / 2)

    def test_by_default_it_is_three_times_the_estimate_of_what_needs_the_nodes(self) -> None:
        article = load(ARTICLE)
        whole = cost(article)
        hours = whole.hours_of(Standing.TRAINIUM)
        assert 3 * hours <= guard_hours(article) < 3 * hours + 1
        hours = whole.hours_of(Standing.COMPILE)
        assert 3 * hours <= compile_guard_hours(article) < 3 * hours + 1

    @pytest.mark.parametrize("where", [{}, ON_TRAINIUM])
    def test_of_the_estimate_is_enough_and_less_is_not(self, where: dict[str, Any]) -> None:
        needed = math.ceil(estimate(sweep(where)).usd)
        enough = sweep(where, at_most_usd=needed)
        assert guard_hours(enough) * enough.capacity.nodes >= estimate(enough).node_hours
        with pytest.raises(ExperimentError, match=f"must be at least {needed}, the estimate"):
            sweep(where, at_most_usd=needed - 1)


def test_the_notes_say_what_a_sweep_takes() -> None:
    experiment = load(ARTICLE_SWEEP)
    found = estimate(experiment)
    (said,) = (note for note in notes(experiment) if note.startswith("sweep: "))
    assert f"{found.variants} compiles in {found.compile_node_hours:.1f} hours of CPU nodes" in said
    assert f"{found.node_hours:.1f} hours of Trainium nodes and {math.ceil(found.usd)} USD" in said
    assert "Trainium nodes are ended after 9.0 hours, or 322 USD, whatever runs on them" in said


def jobs(changes: dict[str, Any] | None = None) -> Experiment:
    return parse(edited(VANILLA | (changes or {})), "mine.yaml")


class TestJobs:
    """Variants that run as jobs, one prompt at a time and one variant after the other."""

    @pytest.mark.parametrize(("mode", "tokens"), [("vanilla", 1024), ("medusa", 400)])
    def test_an_index_is_its_start_and_the_answers_of_its_benchmark(
        self, mode: str, tokens: int
    ) -> None:
        for variant in variants(load(EXPERIMENTS / f"{mode}.yaml")):
            expected = START_SECONDS + DEMO_ANSWERS * tokens * TOKEN_SECONDS
            assert index_seconds(variant) == pytest.approx(expected)

    def test_none_runs_beside_another(self) -> None:
        """Though the node holds two claims."""
        found = estimate(jobs())
        assert (found.variants, found.at_once) == (2, 1)
        measuring = sum(map(index_seconds, variants(jobs()))) / 3600
        assert found.measuring_hours == pytest.approx(measuring)
        assert found.hours == pytest.approx(COMPILE_SECONDS / 3600 + measuring)
        on_trainium = estimate(jobs(ON_TRAINIUM))
        assert on_trainium.hours == pytest.approx(2 * COMPILE_SECONDS / 3600 + measuring)

    def test_their_deadlines_leave_room_for_what_nobody_has_measured(self) -> None:
        experiment = jobs()
        longest = max(map(index_seconds, variants(experiment)))
        assert index_deadline_seconds(experiment) >= 3 * longest
        # Every index may take as long as its deadline, after days without nodes, and compiles.
        needed = 2 * (index_deadline_seconds(experiment) + COMPILE_SECONDS)
        assert job_deadline_seconds(experiment) >= needed

    def test_the_notes_say_what_they_take_and_what_they_are_not(self) -> None:
        experiment = jobs()
        found = estimate(experiment)
        takes, are_not = (note for note in notes(experiment) if note.startswith("jobs: "))
        assert "2 variants, one after the other: by estimate 2 compiles" in takes
        hours = f"{found.node_hours:.1f} hours of Trainium nodes"
        assert f"{hours} and {math.ceil(found.usd)} USD" in takes
        assert "ended after 5.0 hours, or 179 USD" in takes
        assert "no service's" in are_not
        assert not [note for note in notes(parse(edited({}), "mine.yaml")) if "jobs" in note]
