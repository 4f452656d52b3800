"""What a median hides: longer waits, other lengths, prompts that differ, a change in mid-run."""

import random
from collections.abc import Callable, Iterator

import pytest

from benchmarks import simulation
from benchmarks.simulation import World
from spectap.analysis.summarise import summarise
from spectap.records.record import Record
from spectap.report import headline
from tests import samples

CONFIG = samples.config(
    load=samples.load(concurrency=4, requests=48, rounds=6),
    test_cases=[{"name": "counting", "line": "counting ", "structure": "structured"}],
)
Change = Callable[[int, int], tuple[float, float, int]]
"""A speculative request's first token, its last, and its tokens; by its round and number."""


def records(change: Change, **fields: int | None) -> Iterator[Record]:
    chance = random.Random(1)
    for number in range(6 * 48 * 2):
        round_, request = number // 96 + 1, number % 96 // 2
        first, last, tokens = change(round_, request) if number % 2 else (0.3, 6.3, 100)
        last *= chance.lognormvariate(0, 0.03)
        yield samples.record(
            variant=("Base", "SD")[number % 2],
            **{"round": round_, "request": f"{number}", "output_tokens": tokens, **fields},
            **{"chunks": ((first, 1), (last, tokens - 1)), "end": last},
            **{"load": "concurrency-4", "prompt": f"p{request}" if fields else ""},
            sent=1.8e9 + 1000 * round_ + 10 * (request // 4),
        )


@pytest.mark.parametrize(
    ("change", "fields", "said"),
    [
        (lambda r, n: (0.3, 3.3, 100), {}, ["%). Keep it on."]),
        # Two of each round's 48 requests.
        (
            lambda r, n: (0.3, 3.3 if n % 24 else 49.5, 100),
            {},
            ["p99 of E2E 49.5 s instead of 6.", "only where such waits are acceptable"],
        ),
        # One round is no tail: what slows a minute slows all of it.
        (lambda r, n: (0.3, 3.3 if r > 1 else 49.5, 100), {}, ["undecided"]),
        (lambda r, n: (0.9, 3.9, 100), {}, ["p50 of TTFT 0.900 s instead of 0.300 s"]),
        (
            lambda r, n: (0.3, 8.3, 200),
            {},
            ["0.7", "cost of answers +3", "2.00x as long", "Look into its answers first."],
        ),
        (
            lambda r, n: (0.3, 6.3 if n % 2 else 1.3, 100),
            {"cached_tokens": None},
            ["sent 6 times", "50 % of the prompts gain nothing. Keep it on for the others."],
        ),
        (lambda r, n: (0.3, 3.3, 100), {"cached_tokens": 0}, ["%). Keep it on."]),
    ],
)
def test_what_a_median_hides(
    change: Change, fields: dict[str, int | None], said: list[str]
) -> None:
    [answer] = headline.answers(summarise(CONFIG, records(change, **fields)), CONFIG)
    assert all(part in answer for part in said), answer
    assert ("p99" in answer) == any("p99" in part for part in said)


@pytest.mark.parametrize(
    ("cases", "after", "change", "noted"),
    [
        pytest.param(4, 5, 0.4, ["SD"], id="the last round, in every case"),
        pytest.param(1, 3, 0.4, ["SD"], id="from the middle, in one case"),
        pytest.param(1, 5, 0.4, [], id="a round of one case is no half"),
        pytest.param(4, 3, 0.02, [], id="too little to matter"),
        pytest.param(4, 6, 0.4, [], id="nothing"),
    ],
)
def test_the_halves_of_a_run(cases: int, after: int, change: float, noted: list[str]) -> None:
    world = World("steady", request=0.01, wave=0.01, speedups=(1.0,) * cases)
    records = [
        simulation.slower(record, change)
        if record.variant == "SD" and record.round > after
        else record
        for record in simulation.records(world, 1)
    ]
    halves = summarise(simulation.configuration(world), records).halves
    assert [*halves] == noted
    assert all(speed.high < 0.95 for speed in halves.values())


def test_a_run_that_was_stopped_claims_less() -> None:
    """A true 1.1x is surely seen in all six rounds, and not if there were to be thirty."""
    whole, stopped = (
        World("1.1x", request=0.02, wave=0.02, speedups=(1.1,) * 2, rounds=rounds)
        for rounds in (6, 30)
    )
    six = [record for record in simulation.records(stopped, 1) if record.round <= 6]
    speeds = [
        [
            compared.speed.interval
            for case in summarise(simulation.configuration(world), six).cases
            for _, compared in case.compared
            if compared.speed
        ]
        for world in (whole, stopped)
    ]
    assert all(speeds)
    for of_whole, of_stopped in zip(*speeds, strict=True):
        assert of_stopped.low < of_whole.low < of_whole.high < of_stopped.high
