"""Test cases at several loads: cells, ladders, and what is said of each load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from spectap.analysis.summarise import summarise, summarise_ledgers
from spectap.analysis.summary import Case, Finding, Summary
from spectap.config import Config
from spectap.record import Record
from tests.spectap import samples

ROUNDS = 4
POINTS: list[dict[str, Any]] = [
    {"concurrency": 8, "requests": 8},
    {"concurrency": 1, "requests": 2},
    {"rate": 2, "requests": 4},
    {"rate": 1, "requests": 4},
]
SPEED = {"concurrency-1": 2.0, "concurrency-8": 0.8, "rate-1": 1.5, "rate-2": 1.2}
CASE = {"name": "counting", "line": "counting ", "structure": "structured"}


def config(points: Sequence[Mapping[str, Any]] = POINTS, **changes: Any) -> Config:
    """A baseline and a variant with a batch of four each, and one test case."""
    of_load = samples.load(points=points, rounds=ROUNDS)
    variants = samples.variants(Base="http://127.0.0.1:1/v1", SD="http://127.0.0.1:2/v1")
    values: dict[str, Any] = {
        "load": of_load,
        "variants": [{**one, "batch": 4} for one in variants],
        "test_cases": [CASE],
    }
    return samples.config(**(values | changes))


def records(late: float = 0.0, case: str = "counting") -> Iterator[Record]:
    """Every request that ``config`` asks for; 8 tokens each, 1 % slower from round to round."""
    clock = 1_800_000_000.0
    for round_ in range(1, ROUNDS + 1):
        for point in config().load.points:
            clock += 100
            for variant in ("Base", "SD"):
                speed = SPEED[point.name] if variant == "SD" else 1.0
                took = (1 + 0.01 * (round_ + (variant == "SD" and round_ % 2))) / speed
                for number in range(point.requests):
                    wave = number // (point.concurrency or 8)
                    due = clock + number / point.rate if point.rate else None
                    yield samples.record(
                        variant=variant,
                        case=case,
                        load=point.name,
                        round=round_,
                        request=f"{point.name}-{variant}-{round_}-{number}",
                        sent=due + late if due else clock + wave * (took + 0.1),
                        due=due,
                        chunks=((0.1 / speed, 1), (0.1 / speed + took, 7)),
                        end=0.1 / speed + took,
                    )


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(config(), records())


def only(summary: Summary) -> Case:
    (case,) = summary.cases
    return case


def test_a_cell_for_each_load_and_variant_in_the_order_of_the_configuration(
    summary: Summary,
) -> None:
    assert [(str(cell.load), cell.variant) for cell in only(summary).cells] == [
        (load, variant)
        for load in ("concurrency 8", "concurrency 1", "2 requests a second", "1 request a second")
        for variant in ("Base", "SD")
    ]
    assert [cell.requests for cell in only(summary).cells] == [32, 32, 8, 8, 16, 16, 16, 16]
    assert summary.complete
    assert [load.name for load in summary.loads] == [
        "concurrency-8",
        "concurrency-1",
        "rate-2",
        "rate-1",
    ]


def test_each_load_has_its_own_verdict(summary: Summary) -> None:
    case = only(summary)
    for name, speed in SPEED.items():
        found = case.cell("SD", next(one for one in summary.loads if one.name == name)).comparison
        assert found is not None
        assert found.speedup is not None
        assert found.speedup.point == pytest.approx(speed, rel=0.02)
        assert found.verdict.finding is (Finding.FASTER if speed > 1 else Finding.SLOWER)


def test_an_open_loop_has_no_price(summary: Summary) -> None:
    for cell in only(summary).cells:
        assert cell.load is not None
        if cell.comparison is not None:
            assert (cell.comparison.cost is None) == cell.load.open
        assert (cell.usd_per_million_output_tokens is None) == cell.load.open
        assert cell.tokens_per_second is not None


def test_what_an_open_loop_served_is_that_of_its_time(summary: Summary) -> None:
    cell = next(
        cell
        for cell in only(summary).cells
        if str(cell.load) == "1 request a second" and cell.variant == "Base"
    )
    # Four requests of 8 tokens, one a second, and the last answer; each round takes 1 % longer.
    seconds = sum(4 + 1.1 + 0.01 * round_ for round_ in range(1, ROUNDS + 1))
    assert cell.tokens_per_second == pytest.approx(4 * 8 * ROUNDS / seconds)


def test_a_ladder_for_each_kind_of_load(summary: Summary) -> None:
    closed, by_rate = only(summary).ladders
    assert [str(load) for load in closed.loads] == ["concurrency 1", "concurrency 8"]
    assert (closed.speed.better_up_to, closed.speed.worse_from) == (1, 8)
    assert closed.cost.found
    assert by_rate.open
    assert (by_rate.speed.better_up_to, by_rate.speed.point) == (2, None)
    assert "no crossover" in by_rate.sentence


def test_what_is_true_at_some_loads_is_noted_once_for_them(summary: Summary) -> None:
    (note, other) = only(summary).notes
    assert note.startswith("Base at concurrency 8: requests queue")
    assert other.startswith("SD at concurrency 8: ")
    assert [cell.queued for cell in only(summary).cells] == [True] * 2 + [False] * 6


def test_a_load_that_lags_is_marked_everywhere() -> None:
    late = only(summarise(config(), records(late=0.3)))
    assert [cell.lagging for cell in late.cells] == [False] * 4 + [True] * 4
    for cell, comparison in late.compared:
        assert ("were sent late" in comparison.verdict.sentence) == cell.lagging
    notes = [note for note in late.notes if "lagged" in note]
    assert notes[0].startswith("Base at 2 requests a second and at 1 request a second: ")
    assert (
        "SD requests were sent late, so the load was another from 1 a second."
        in late.ladders[1].sentence
    )


def test_objectives_are_asked_of_every_cell() -> None:
    found = summarise(config(objectives={"tpot_p90_ms": 140}), records())
    shares = {
        (str(cell.load), cell.variant): cell.goodput and cell.goodput.share
        for cell in only(found).cells
    }
    assert shares["concurrency 8", "Base"] == 0
    assert shares["concurrency 1", "SD"] == 1
    assert found.objectives is not None


def test_requests_of_earlier_ledgers_are_of_the_first_load() -> None:
    alone = config(POINTS[:1])
    own = [record for record in records() if record.load == "concurrency-8"]
    earlier = [samples.record(**{**vars(record), "load": ""}) for record in own]
    assert summarise(alone, earlier) == summarise(alone, own)


def test_loads_that_the_configuration_does_not_name_are_left_out_and_named() -> None:
    fewer = config(POINTS[:2])
    found = summarise(fewer, [*records(), *records(case="other")])
    assert found.notes == (
        "Test cases left out because the configuration does not name them: other.",
        "Load points left out because the configuration does not name them: rate-1, rate-2.",
    )
    assert len(only(found).cells) == 4


def test_ledgers_alone_have_the_loads_that_they_name(summary: Summary) -> None:
    alone = summarise_ledgers(records())
    for cell, known in zip(only(alone).cells, only(summary).cells, strict=True):
        assert cell.load == known.load
        assert cell.measures == known.measures
        assert cell.tokens_per_second == pytest.approx(known.tokens_per_second)
    assert [ladder.loads for ladder in only(alone).ladders] == [
        ladder.loads for ladder in only(summary).ladders
    ]


def test_structures_are_summed_up_load_by_load() -> None:
    twice = config(test_cases=[CASE, CASE | {"name": "other"}])
    found = summarise(twice, [*records(), *records(case="other")])
    assert [(str(one.load), one.cases) for one in found.overall] == [
        (name, 2)
        for name in ("concurrency 8", "concurrency 1", "2 requests a second", "1 request a second")
    ]
    assert [one.cost is None for one in found.overall] == [False, False, True, True]


def test_prompt_sets_are_in_no_structure() -> None:
    sets = [{"name": name, "prompts": {"known": "humaneval"}} for name in ("counting", "other")]
    named = [
        samples.record(**{**vars(record), "prompt": record.request.rsplit("-", 1)[1]})
        for case in ("counting", "other")
        for record in records(case=case)
    ]
    summary = summarise(config(test_cases=sets), named)
    assert summary.overall == ()
    assert {case.structure for case in summary.cases} == {""}
