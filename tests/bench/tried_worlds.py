"""The worlds that the bench of the statistics simulates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from spectap.load_points import Rounds
from tests.bench.statements import TOKEN_SECONDS, TOKENS_PER_SECOND
from tests.bench.worlds import Neighbour, World

MIXED: Final = (1.0,) * 5 + (1.3,) * 3 + (3.0,) * 2
FOUND: Final = "1.3x"
ARTICLE: Final = "the article's scatter"
RANGE: Final = Rounds(at_least=4, at_most=30, half_width=0.05)

ISSUE: Final = (
    World("requests"),
    World("waves", wave=0.05),
    World("waves, shared rounds", wave=0.05, round=0.05),
    World("wide waves", request=0.02, wave=0.15),
    World("3x, all of these", request=0.1, wave=0.1, round=0.05, speedups=(3.0,) * 10),
)
"""Scatter of each kind, under the default load."""

PLAIN: Final = ISSUE[1]

FIXED: Final = (
    *(replace(world, rounds=3, requests=8) for world in ISSUE),
    *ISSUE,
    World("rounds of each side", wave=0.05, own_round=0.05),
    World("heavy tails", wave=0.05, heavy=True),
    World("stalls of 3 %", wave=0.05, stalls=0.03),
    World("drift of 20 %", wave=0.05, drift=0.2),
    World("one-sided drift of 5 %", wave=0.05, one_sided_drift=0.05),
    World("neighbour of minutes", neighbour=Neighbour(scatter=0.1, seconds=180)),
    World("neighbour of an hour", neighbour=Neighbour(scatter=0.1, seconds=3600)),
    World("one-sided neighbour", neighbour=Neighbour(0.1, seconds=20, one_sided=True)),
    World("failures of 5 %", wave=0.05, failures=0.05),
    World("answers of all lengths", wave=0.05, lengths=0.3),
    World("three times the scatter", wave=0.05, wider=3),
    World("1.0x, 1.3x and 3x", wave=0.05, speedups=MIXED),
    World(FOUND, speedups=(1.3,) * 10),
    World("just over 5 %", rounds=30, speedups=(1.051,) * 10),
    World("1.0x and just over 5 %", speedups=(1.0,) * 5 + (1.051,) * 5, rounds=30),
    *(replace(PLAIN, rounds=rounds) for rounds in (3, 4, 8, 15, 30)),
    replace(PLAIN, concurrency=1),
    replace(PLAIN, concurrency=16, requests=16),
)

PROMPTS: Final = World("prompts of their own", wave=0.05, prompts=164, prompt=0.2)
"""Prompts with names, others in each round."""

SETS: Final = (
    PROMPTS,
    replace(PROMPTS, name="and rounds of each side", own_round=0.05, prompt=0.1),
    replace(PROMPTS, name="12 prompts", own_round=0.05, prompts=12),
    replace(PROMPTS, name="12 prompts, 3 rounds", own_round=0.05, prompts=12, rounds=3),
    replace(PROMPTS, name="12 in each round", own_round=0.05, prompts=12, requests=12),
    replace(PROMPTS, name="80 prompts, 30 rounds", own_round=0.05, prompts=80, rounds=30),
)
SIDES_ALONE: Final = (TOKEN_SECONDS, TOKENS_PER_SECOND)

LOADS: Final = (1, 2, 4, 8)
CLEAR: Final = "clearly between two"
LADDERS: Final = tuple(
    World(name, wave=0.05, ladder=LOADS, speedups=speedups * 3)
    for name, speedups in (
        (CLEAR, (1.5, 1.3, 0.75, 0.6)),
        ("between two", (1.3, 1.05, 0.95, 0.8)),
        ("at a load", (1.2, 1.0, 0.9, 0.8)),
        ("at the lowest", (1.0, 0.9, 0.8, 0.7)),
        ("beyond the highest", (1.4, 1.2, 1.1, 1.02)),
        ("below the lowest", (0.98, 0.9, 0.8, 0.7)),
        ("no difference at all", (1.0, 1.0, 1.0, 1.0)),
    )
)
"""Where a variant turns from better to worse, over four loads of three test cases."""

OBJECTIVES: Final = (
    World("half within", wave=0.05, round=0.05, limit=0.045),
    World("most within", wave=0.05, round=0.05, limit=0.05),
    World("most within, 8 waves", wave=0.05, round=0.05, limit=0.05, requests=8, concurrency=1),
    World("most, 30 rounds", wave=0.05, round=0.05, limit=0.05, rounds=30),
    World("failures of 5 %", failures=0.05, limit=0.055, requests=12),
)

UNSEEN: Final[Mapping[str, tuple[str, ...]]] = {
    # In most runs there are too few of them to show how often they come.
    "stalls of 3 %": (TOKENS_PER_SECOND,),
    "failures of 5 %": (TOKENS_PER_SECOND,),
    # Rounds that follow one another are alike.
    "neighbour of minutes": (TOKEN_SECONDS, TOKENS_PER_SECOND),
    "neighbour of an hour": (TOKEN_SECONDS, TOKENS_PER_SECOND),
    # What is true depends on when a test case ends.
    "drift of 20 %": (TOKEN_SECONDS, TOKENS_PER_SECOND),
    # Prompts that come again in other rounds do not show how others would differ.
    **{
        world.name: SIDES_ALONE
        for world in SETS
        if world.prompts < world.requests * world.most_rounds
    },
}
"""What the rounds of one side alone do not show in a world, so that no interval of theirs can hold
it. A comparison does hold: both sides share what is there."""

RANGED: Final = tuple(
    replace(world, rounds=RANGE)
    for world in (
        World(ARTICLE, speedups=MIXED),
        World("requests"),
        PLAIN,
        World("1.0x, 1.3x and 3x", wave=0.05, round=0.05, speedups=MIXED),
        World("wide waves", request=0.02, wave=0.15),
        World("heavy tails", wave=0.05, heavy=True),
        World("drift of 20 %", wave=0.05, drift=0.2),
        World("neighbour of minutes", neighbour=Neighbour(scatter=0.1, seconds=180)),
        World("failures of 5 %", wave=0.05, failures=0.05),
    )
)
"""A one-sided drift is not among them: what is true of it depends on when a case ends."""
