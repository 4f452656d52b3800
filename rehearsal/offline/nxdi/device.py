"""The time that passes cost, and by what they are decided."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from rehearsal.golden import cost
from rehearsal.golden.schedule import Decoding
from rehearsal.golden.server import Acceptance

TRUTH: Final = "REHEARSAL_TRUTH"
"""The variable with the path of what a golden NxDI knows."""


@dataclass(frozen=True)
class Truth:
    """How a variant decodes: what a measurement is held against."""

    token_seconds: float
    draft_cost: float
    prefill_seconds: float
    speed: float
    cost: str
    """As ``rehearsal.golden.cost`` parses it."""
    otherwise: float
    """The acceptance of drafts for a prompt that is not known."""
    by_text: Mapping[str, float] = field(default_factory=dict)
    """Acceptance by a text that a prompt contains. The first match counts."""
    record: str | None = None
    """Where each answer's steps are written down, a list of tokens a line, the prefill's first."""
    hangs_after: int | None = None
    """After so many answers, the next one never comes."""

    @classmethod
    def told(cls) -> Truth:
        """That of this process."""
        return cls(**json.loads(Path(os.environ[TRUTH]).read_bytes()))

    def write(self, path: Path) -> None:
        """For a process that is to be started."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def note(self, steps: Sequence[int]) -> None:
        """Writes down what an answer came in."""
        if self.record is not None:
            with Path(self.record).open("a", encoding="utf-8") as file:
                file.write(json.dumps([*steps]) + "\n")

    @property
    def acceptance(self) -> Acceptance:
        """How likely a draft is accepted."""
        return Acceptance(self.by_text, self.otherwise)

    def decoding(self, drafts: int) -> Decoding:
        """How steps with so many drafts decode."""
        return Decoding(
            window=drafts + 1,
            kept=1,
            draft_cost=self.draft_cost,
            token_seconds=self.token_seconds,
            prefill_seconds=self.prefill_seconds,
            speed=self.speed,
            cost=cost.parse(self.cost),
        )


class Device:
    """The cores that target and draft share: one pass after another.

    As a golden endpoint's steps, a pass that is late does not delay those that follow.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now, self._sleep = now, sleep
        self._due = 0.0

    def begin(self) -> None:
        """An answer begins: nothing is due."""
        self._due = self._now()

    def take(self, seconds: float) -> None:
        """A pass whose end nobody waits for."""
        self._due += seconds

    def run(self, seconds: float) -> None:
        """A pass, to its end."""
        self.take(seconds)
        self._sleep(max(0.0, self._due - self._now()))


class Imagined:
    """A clock on which nothing takes any time, for a benchmark that nobody has to wait for."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        """Is over at once."""
        self.now += seconds

    @property
    def device(self) -> Device:
        """Cores by this clock."""
        return Device(lambda: self.now, self.sleep)
