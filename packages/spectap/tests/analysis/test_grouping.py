"""What counts as independent: rounds, and blocks of time where there are none."""

from dataclasses import replace

from spectap.analysis import cells, grouping
from spectap.inputs.load_points import LoadPoint
from spectap.records.record import Record
from tests import samples


def records(rounds: int, requests: int, concurrency: int = 2, run: str = "r") -> list[Record]:
    """Waves of ``concurrency`` requests of half a second, a second apart."""
    return [
        samples.record(
            run=run,
            round=number,
            request=f"{number}-{index}",
            sent=1e9 + 1000 * number + index // concurrency,
        )
        for number in range(1, rounds + 1)
        for index in range(requests)
    ]


def numbers(units: list[grouping.Unit]) -> list[list[set[int]]]:
    return [[{record.round for record in side} for side in unit] for unit in units]


def test_rounds_are_paired() -> None:
    speculative, baseline = records(4, 4), records(5, 6)
    units = grouping.units(speculative, baseline, planned=False)
    assert numbers(units) == [[{number}, {number}] for number in range(1, 5)]
    assert [len(side) for side in units[0]] == [4, 6]
    assert grouping.rounds(records(4, 4), records(4, 4, run="other")) == {}


def test_launches_take_the_place_of_rounds() -> None:
    sides = [
        [replace(record, launch=(record.round + 1) // 2) for record in records(6, requests)]
        for requests in (4, 6)
    ]
    units = grouping.units(*sides, planned=True)
    assert numbers(units) == [[{1, 2}] * 2, [{3, 4}] * 2, [{5, 6}] * 2]
    assert len(grouping.rounds(*sides, by=grouping.round_of)) == 6
    # The time of an open loop ends with each round, and so does a queue.
    point = LoadPoint(rate=2, requests=4)
    launched, plain = (cells.tokens_per_second(of, point) for of in (sides[0], records(6, 4)))
    assert launched is not None
    assert plain is not None
    assert (launched.units, plain.units) == (3, 6)
    assert launched.log == plain.log


def test_a_block_has_at_least_two_waves() -> None:
    assert len(grouping.units(records(1, 24, concurrency=4), planned=False)) == 3
    assert grouping.units(records(1, 23, concurrency=4), planned=False) == []


def test_in_flight_is_the_mean_while_there_is_any() -> None:
    base = samples.record(sent=10.0, end=1.0)
    assert grouping.in_flight([base, replace(base, sent=10.1), replace(base, sent=20.0)]) == 1
    assert grouping.in_flight([base, replace(base, sent=10.1)]) == 2
    # Clocks differ by less than a request; two in turn are not two at once.
    assert grouping.in_flight([base, replace(base, sent=10.9999)]) == 1
