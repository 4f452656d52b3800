"""The advice: what ``advise`` computes, and ``advice.json`` holds."""

import dataclasses
import json
from dataclasses import dataclass

from spectap.analysis.estimates.intervals import Interval
from spectap.load_points import LoadPoint


@dataclass(frozen=True)
class Series:
    """Variants of one mode, draft and batch, which differ in their window: a line in a figure."""

    name: str
    """The draft's short name, with mode and batch where lines differ in these."""
    mode: str | None
    draft: str | None
    batch: int | None
    baseline: str
    variants: tuple[tuple[int, str], ...]
    """Each measured window and the name of its variant, smallest first."""
    offset: int
    """A window less the drafts that a step of it verifies: 1 with NxDI, 0 with upstream vLLM."""

    @property
    def windows(self) -> tuple[int, ...]:
        return tuple(window for window, _ in self.variants)

    @property
    def fixed(self) -> bool:
        """Whether no other window can be served: a DFlash head drafts a block of trained length."""
        return self.mode == "dflash"


@dataclass(frozen=True)
class Position:
    """How often the draft at one position was accepted, of those that were reached."""

    number: int
    reached: int
    """Steps in which all drafts before it were accepted, and which an answer's end did not cut."""
    accepted: float
    interval: tuple[float, float] | None
    """95 %, with the round as the unit; None where there are too few."""


@dataclass(frozen=True)
class Acceptance:
    """One line's acceptance on one class, over all its windows and loads."""

    line: str
    prompt_class: str
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class StepCost:
    """The mean step of a line and of its baseline at one load, over all classes, in seconds."""

    line: str
    load: LoadPoint | None
    baseline: float
    measured: tuple[tuple[int, float], ...]
    """Each measured window and its step."""


@dataclass(frozen=True)
class Prospect:
    """One window of one line, on one class of prompts, at one load."""

    line: str
    window: int
    prompt_class: str
    load: LoadPoint | None
    tokens_per_step: float
    """Measured where the window was measured, like ``step_seconds``; otherwise predicted."""
    step_seconds: float
    predicted: Interval | None
    """Speed-up of whole requests over the baseline's. Of a measured window, predicted from the
    other windows of its line alone; None where there is no other."""
    measured: Interval | None
    """None where the window was not measured."""

    @property
    def speedup(self) -> Interval:
        """Measured where it was measured, otherwise predicted."""
        speedup = self.measured or self.predicted
        assert speedup is not None
        return speedup


@dataclass(frozen=True)
class Choice:
    """A line and a window; both None for decoding without speculation."""

    line: str | None
    window: int | None

    def __str__(self) -> str:
        return f"{self.line}, window {self.window}" if self.line else "no speculation"


@dataclass(frozen=True)
class Recommendation:
    """What to serve one class of prompts with at one load, or the mix of all classes."""

    prompt_class: str | None
    """None for the mix."""
    load: LoadPoint | None
    choice: Choice
    measured: bool
    speedup: Interval
    """Over the baseline; 1 without speculation."""
    usd_per_million_output_tokens: float | None
    """None where the price is not known, and in an open loop."""
    near: tuple[Choice, ...]
    """The others that may be within 2 % of the best, fastest first."""
    sentence: str
    measure_next: str
    """What to measure to be surer, as a sentence; empty where it is clear."""


@dataclass(frozen=True)
class Advice:
    """The whole advice, with no prospects if none speculates."""

    lines: tuple[Series, ...] = ()
    mix: tuple[tuple[str, float], ...] = ()
    """Each class and its share of the output tokens; the shares add up to 1."""
    acceptances: tuple[Acceptance, ...] = ()
    costs: tuple[StepCost, ...] = ()
    prospects: tuple[Prospect, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    """For each load: one for each class, then, where there are several classes, the mix's."""
    cautions: tuple[str, ...] = ()
    """Queues, failures and late requests."""
    measure_next: tuple[str, ...] = ()
    """What to measure before there can be any recommendation, a sentence each."""
    rehearsal: bool = False
    """Whether something stood in for the services: then it advises nothing."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The fields by their names."""
        content = dataclasses.asdict(self)
        return json.dumps(content, indent=2, default=LoadPoint.model_dump) + "\n"
