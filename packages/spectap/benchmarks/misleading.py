"""Worlds in which a speed-up misleads: other lengths, a worse tail, prompts that differ.

What is found is whether the headline says so, and does not advise to keep the variant on as if it
were not.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.harness import Bar, Group, Statement
from benchmarks.servers import SD, Changed
from benchmarks.simulation import World, slower
from spectap.analysis.summarise import summarise
from spectap.records.record import Record
from spectap.report import headline

HEADLINE: Final = "headline"


@dataclass(frozen=True)
class Misleading(Changed):
    """A run whose headline has to match."""

    says: str = ""
    never: str = r"Keep it on\."

    def statements(self, number: int) -> Iterator[Statement]:
        """Whether the headline says what decides; "wrong" where nothing does."""
        config = self.config()
        text = "\n".join(headline.answers(summarise(config, self.records(number)), config))
        said = bool(re.search(self.says, text)) and not re.search(self.never, text)
        yield Statement(HEADLINE, wrong=not self.says and bool(re.search(self.never, text)))
        if self.says:
            yield Statement(HEADLINE, found=float(said))


@dataclass(frozen=True)
class SlowRounds(Misleading):
    """One round in ten of either side takes twice as long."""

    def records(self, number: int) -> list[Record]:
        plain, chance = super().records(number), self.chance(number)
        turns = sorted({(r.case, r.round, r.variant) for r in plain})
        slow = dict(zip(turns, chance.random(len(turns)) < 0.1, strict=True))
        level = math.log(2)
        return [slower(r, level * slow[r.case, r.round, r.variant]) for r in plain]


@dataclass(frozen=True)
class Longer(Misleading):
    """The variant's answers are so many times as long, at the same time per token."""

    times: float = 2.0

    def records(self, number: int) -> list[Record]:
        def moved(record: Record) -> Record:
            (first, one), (last, tokens) = record.chunks
            longer = round((1 + tokens) * self.times) - 1
            last = first + (last - first) * longer / tokens
            chunks = ((first, one), (last, longer))
            return replace(record, chunks=chunks, end=last, output_tokens=1 + longer)

        return [moved(r) if r.variant == SD else r for r in super().records(number)]


@dataclass(frozen=True)
class Waits(Misleading):
    """Some of the variant's requests take many times as long, or its first token comes later."""

    share: float = 0.0
    times: float = 1.0
    first: float = 0.0

    def records(self, number: int) -> list[Record]:
        chance = self.chance(number)

        def moved(record: Record) -> Record:
            factor = self.times if chance.random() < self.share else 1.0
            times = [(self.first + factor * time, tokens) for time, tokens in record.chunks]
            return replace(record, chunks=tuple(times), end=self.first + factor * record.end)

        return [moved(r) if r.variant == SD else r for r in super().records(number)]


@dataclass(frozen=True)
class Halves(Misleading):
    """Half of the prompts gain nothing."""

    def records(self, number: int) -> list[Record]:
        def moved(record: Record) -> Record:
            first, (last, tokens) = record.chunks
            end = first[0] + (last - first[0]) * self.world.speedups[0]
            return replace(record, chunks=(first, (end, tokens)), end=end)

        plain = super().records(number)
        return [moved(r) if r.variant == SD and int(r.prompt[7:]) % 2 else r for r in plain]


SHORT: Final = World("short", wave=0.05, requests=16, tokens=6, speedups=(1.0,) * 3)
LONG: Final = replace(SHORT, name="long", tokens=600)
FAST: Final = World("3x", wave=0.05, requests=32, tokens=80, speedups=(3.0,) * 10)
SET: Final = World(*("set", 0.05), wave=0.05, requests=12, prompts=12, speedups=(5.0,), tokens=300)
EQUAL: Final = tuple(
    replace(FAST, name=name, speedups=(1.0,) * 10, **more)
    for name, more in (
        ("equal", {}),
        ("equal, stalls of 3 %", {"stalls": 0.03}),
        ("equal, heavy tails", {"heavy": True}),
        ("equal, wide waves", {"wave": 0.15}),
        ("equal, rounds of each side", {"own_round": 0.05}),
    )
)

_SAID: Final = "p99|p50|as long|prompts gain"

GROUPS: Final = (
    Group(
        "misleading",
        (
            Longer("twice as long", SHORT, r"0\.\d+x as fast.*2\.0+x.*as long", times=2.0),
            Longer("27 % shorter", LONG, r"0\.73x.*as long.*Look into", times=0.73),
            Waits("2 % 15 times slower", FAST, "p99 of", share=0.02, times=15),
            Waits("5 % four times slower", FAST, "p99 of", share=0.05, times=4),
            Waits("first token 0.9 s", FAST, "p50 of TTFT", first=0.6),
            Halves(
                "half gain nothing",
                SET,
                "; (42|50|58) % of the prompts gain nothing",
            ),
        ),
        {HEADLINE: Bar(None, found=0.95)},
        40,
    ),
    Group(
        "not misleading",
        (
            *(Misleading(world.name, world, never=_SAID) for world in EQUAL),
            SlowRounds("equal, slow rounds of each side", EQUAL[0], never=_SAID),
        ),
        {HEADLINE: Bar(None, wrong=0.05)},
        100,
    ),
)
