"""The order of a run: of the test cases in a round, and of the variants at the start of a turn.

What changes over a run, such as a node that warms up or a neighbour that wakes, must not meet the
same test case or the same variant every time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

# Fixed: a run that is resumed goes on in the order in which it began.
_SEED: Final = 1


def orders(items: Sequence[T], rounds: int) -> Iterator[tuple[T, ...]]:
    """An order of ``items`` for each of the ``rounds``, the first their own; always the same ones.

    In any number of rounds an item is at each place equally often, give or take one, and directly
    follows each other item equally often, give or take one; for an odd number of items, give or
    take two. The orders are the rows of a Williams design, shuffled anew each time they are used
    up (E. J. Williams, 1949, "Experimental designs balanced for the estimation of residual effects
    of treatments", Australian Journal of Scientific Research A 2, pages 149 to 168).
    """
    chance = random.Random(_SEED)
    rows: list[tuple[int, ...]] = []
    names: tuple[T, ...] = ()
    for _ in range(rounds):
        if not rows:
            # random() is the one method whose values stay the same over versions of Python.
            for square in _squares(len(items)):
                rows += sorted(square, key=lambda _: chance.random())
        row = rows.pop()
        names = names or tuple(items[row.index(place)] for place in range(len(items)))
        yield tuple(names[place] for place in row)


def rotated(items: Sequence[T], round: int) -> tuple[T, ...]:
    """``items`` from another one on each round: what starts first has a head start."""
    first = round % len(items)
    return (*items[first:], *items[:first])


def _squares(count: int) -> list[list[tuple[int, ...]]]:
    """Latin squares of 0 to ``count`` - 1 that together have each pair of neighbours equally often.

    One square is enough for an even count. An odd one needs its mirror image, too.
    """
    # 0, 1, -1, 2, -2, ...: the difference between two neighbours is another each time.
    zigzag = [(place + 1) // 2 * (1 if place % 2 else -1) for place in range(count)]
    square = [tuple((step + row) % count for step in zigzag) for row in range(count)]
    return [square] if count % 2 == 0 else [square, [row[::-1] for row in square]]
