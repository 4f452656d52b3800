"""Which target a pair gets: one that parts from its draft as often as it is meant to."""

from __future__ import annotations

import itertools

import pytest

from rehearsal.vllm.parting import Parting, chosen, tokens_per_step

AS_MEANT = Parting([7.9, 7.5], [1.3, 1.5])
TOO_ALIKE = Parting([7.9], [1.4, 2.05])
PARTS_IN_COUNTING = Parting([7.9, 3.0], [1.4])


@pytest.mark.parametrize(
    ("agreed", "expected"),
    [
        ([True] * 16, 8),  # two steps of seven drafts and a token more
        ([False] * 5, 1),
        ([True, False] * 6, 2),
        ([True] * 3, 3),  # the answer ends inside the step
    ],
)
def test_tokens_of_a_step(agreed: list[bool], expected: float) -> None:
    assert tokens_per_step(agreed, drafts=7) == expected


def test_the_first_draw_that_is_as_meant_or_else_the_nearest() -> None:
    draws = [TOO_ALIKE, PARTS_IN_COUNTING, AS_MEANT, Parting([8.0], [1.4])]
    assert chosen(draws) == (2, AS_MEANT)
    endless = itertools.chain([PARTS_IN_COUNTING, TOO_ALIKE], itertools.repeat(PARTS_IN_COUNTING))
    assert chosen(endless) == (1, TOO_ALIKE)
    for one_kind in (Parting([7.9], []), Parting([], [1.4])):
        assert chosen([one_kind]) == (0, one_kind)
        assert one_kind.miss == 0
