"""The order of a run: everything is measured in each round, and nothing has a place of its own."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectap.run.turns import orders, rotated

counts = st.integers(1, 13)
lengths = st.integers(1, 60)


@given(count=counts, rounds=lengths, more=lengths)
@settings(max_examples=50)
def test_places_and_neighbours_are_balanced(count: int, rounds: int, more: int) -> None:
    every = list(orders(range(count), rounds))
    assert all(sorted(order) == list(range(count)) for order in every)
    assert every[0] == tuple(range(count))
    assert list(orders(range(count), rounds + more))[:rounds] == every
    places = Counter(pair for order in every for pair in enumerate(order))
    times = [places[place, item] for place in range(count) for item in range(count)]
    assert max(times) - min(times) <= 1
    followed = Counter(pair for order in every for pair in pairwise(order))
    times = [followed[pair] for pair in permutations(range(count), 2)] or [0]
    assert max(times) - min(times) <= (2 if count % 2 else 1)


@pytest.mark.parametrize(("count", "rounds"), [(2, 2), (10, 10), (10, 30), (3, 6), (5, 10)])
def test_a_whole_design_is_balanced_exactly(count: int, rounds: int) -> None:
    followed = Counter(pair for order in orders(range(count), rounds) for pair in pairwise(order))
    assert len(followed) == count * (count - 1)
    assert len(set(followed.values())) == 1


def test_the_rounds_are_shuffled() -> None:
    """The first items of the orders are not those of the file, one after the other."""
    first = [order[0] for order in orders(range(10), 10)]
    steps = {(after - before) % 10 for before, after in pairwise(first)}
    assert len(steps) > 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_variant_is_the_first_to_start_equally_often(count: int) -> None:
    first = Counter(rotated(range(count), number)[0] for number in range(1, 6 * count + 1))
    assert first == dict.fromkeys(range(count), 6)
    assert sorted(rotated(range(count), 1)) == list(range(count))
