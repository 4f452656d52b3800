"""Two runs of the same thing, or of one whose acceptance fell: what ``compare`` says of them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from benchmarks.harness import ANY, Bar, Group, Statement, stated
from spectap.analysis.changes import Run
from spectap.analysis.compare import compare
from spectap.analysis.grouping import at_load_points
from spectap.analysis.stopping import last_rounds
from spectap.analysis.summarise import summarise
from spectap.inputs.config import Config
from spectap.records.record import Speculation
from tests import generated_runs
from tests.generated_runs import record

GATE: Final = 0.95
GATED: Final = f"gate of {GATE}"
STEP: Final = 0.064
"""Seconds."""
RANGE: Final = {"at_least": 4, "at_most": 15}


@dataclass(frozen=True)
class Pair:
    """Two runs, and what the new one differs in."""

    name: str
    lower: float = 0.0
    """How much less often a draft is accepted: 0.1 is 10 points."""
    slower: float = 1.0
    """How many times all of it takes longer, as on another node."""
    rounds: int | None = 6
    """None: as many as it takes, in ``RANGE``."""
    tokens: int = 100
    """Of an answer."""

    def run(self, number: int, *, lower: float = 0.0, slower: float = 1.0) -> Run:
        """A generated run; the same number, the same run."""
        rounds: Any = RANGE if self.rounds is None else self.rounds
        content = generated_runs.config(rounds=rounds, output_tokens=self.tokens)
        config = Config.model_validate(content)
        acceptance = {name: share - lower for name, share in generated_runs.ACCEPTANCE.items()}
        lines = generated_runs.ledger(content, number, acceptance)
        slowed = (record(generated_runs.slowed(line, slower)) for line in lines)
        records = at_load_points(config.load, slowed)
        last = last_rounds(config, records)
        needed = tuple(r for r in records if r.round <= last[r.case, r.load])
        return Run(f"run-{number}", config, needed, summarise(config, needed))

    def statements(self, number: int) -> Iterator[Statement]:
        """Which figures are claimed to differ, and whether the gate fails."""
        new = self.run(2 * number + 1, lower=self.lower, slower=self.slower)
        changes = compare(self.run(2 * number), new, GATE)
        for _, figure, change in changes.judged:
            if self.lower:
                yield Statement(figure.value, found=float(change.differs))
            else:
                yield stated(figure.value, change.ratio, 1.0, wrong=change.differs)
        failed = changes.failed
        yield Statement(GATED, wrong=failed and not self.lower, found=float(failed))


@dataclass(frozen=True)
class SamePrompts(Pair):
    """Both runs send the same prompts, one of which yields three times the tokens of another."""

    tokens: int = 600

    def run(self, number: int, *, lower: float = 0.0, slower: float = 1.0) -> Run:
        """``lower``: the part of all tokens a step that is lost."""
        plain, chance = super().run(number, slower=slower), random.Random(number)
        records = []
        for sent in plain.records:
            prompt = f"{sent.case} {sent.round} {sent.request.rpartition('-')[2]}"
            new = replace(sent, prompt=prompt)
            if sent.variant != "Base":
                yielded = random.Random(prompt).uniform(2, 6) * (1 - lower) * chance.gauss(1, 0.02)
                ends = [min(self.tokens - 1, round(yielded * n)) for n in range(self.tokens)]
                sizes = [after - before for before, after in pairwise(ends) if after > before]
                chunks = ((STEP, 1), *((STEP * n, size) for n, size in enumerate(sizes, start=2)))
                accepted, steps = sum(sizes) - len(sizes), len(sizes)
                told = Speculation(drafts=7 * steps, accepted=accepted, steps=steps)
                new = replace(new, chunks=chunks, end=chunks[-1][0], speculation=told)
            records.append(new)
        return Run(plain.name, plain.config, tuple(records), summarise(plain.config, records))


SAME: Final = (
    Pair("the same"),
    Pair("the same, 3 rounds", rounds=3),
    Pair("the same, 15 rounds", rounds=15),
    Pair("the same, a range", rounds=None),
    Pair("the same, 10 % slower", slower=1.1),
)
LOWER: Final = (
    Pair("2 points less", lower=0.02),
    Pair("5 points less", lower=0.05),
    Pair("10 points less", lower=0.1),
    Pair("2 points, 600 tokens", lower=0.02, tokens=600),
    Pair("5 points, 600 tokens", lower=0.05, tokens=600),
)
ALARMS: Final = Bar(None, wrong=0.05)
GROUPS: Final = (
    Group("the same", SAME, {ANY: ALARMS}, 60),
    Group("lower acceptance", LOWER, count=30),
    Group("same prompts", [SamePrompts("as many tokens a step")], {ANY: ALARMS}, 60),
    Group(
        "same prompts, fewer tokens",
        [SamePrompts("10 % fewer tokens a step", lower=0.1)],
        {GATED: Bar(None, found=0.95)},
        60,
    ),
)
