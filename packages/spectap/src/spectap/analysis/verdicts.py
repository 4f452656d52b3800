"""A verdict on a cell against its baseline: claims, the finding, the action, longer waits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from spectap.analysis.estimate import Interval


class Answer(Enum):
    """The answer to a question. ``summary.json`` has its value."""

    BETTER = "better"
    WORSE = "worse"
    NEGLIGIBLE = "negligible"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Claim:
    """The answer to one question on a cell against its baseline. Above 1 the cell is better."""

    interval: Interval
    answer: Answer
    detectable: float
    """The smallest difference that a run like this finds four times in five: 0.06 is 6 %."""
    settles: float
    """The difference that ``rounds_needed`` finds: the one seen, but at least ``MARGIN``."""
    rounds_needed: int | None
    """The number of rounds that finds it; None where this run has them, or none is enough."""


class Finding(Enum):
    """The finding on a variant's speed, or why there is none."""

    FASTER = "faster"
    SLOWER = "slower"
    NEGLIGIBLE = "negligible"
    UNDECIDED = "undecided"
    UNFINISHED = "unfinished"
    TOO_FEW = "too few rounds"
    FAILED = "failed"
    NOT_MEASURED = "not measured"
    UNCONTROLLED = "no controls"
    SEQUENTIAL = "at different times"
    CLIENT = "slow client"
    UNCOUNTED = "no counts of tokens"


class Action(Enum):
    """An action that a difference calls for."""

    KEEP = "keep it on"
    KEEP_FOR_SPEED = "keep it on where speed counts more"
    KEEP_FOR_MONEY = "keep it on where money counts more"
    TURN_OFF = "turn it off"
    LEAVE_OFF = "leave it off: it makes no difference"
    KEEP_WITH_WAITS = "keep it on where its longer waits are acceptable"
    CHECK_ANSWERS = "look into its answers"
    CHECK_ERRORS = "look into its errors"
    CHECK_QUEUE = "look into its queue, which the baseline has not"


@dataclass(frozen=True)
class Verdict:
    """The finding on a cell against its baseline, and the action that it calls for."""

    finding: Finding
    action: Action | None = None
    """None where nothing is decided and in a rehearsal."""
    rounds: int | None = None
    """The number of rounds that both sides have, where they are too few."""
    shared: float | None = None
    """The part of the shorter recording that overlaps, of two made at different times."""


@dataclass(frozen=True)
class Wait:
    """A wait that is clearly longer than the baseline's."""

    metric: str
    percentile: str
    seconds: float
    baseline_seconds: float


@dataclass(frozen=True)
class Comparison:
    """A cell compared with its baseline. Each ratio is above 1 where the cell is better."""

    baseline: str
    by_time_per_output_token: Interval | None
    """Decoding speed, without queue and first token. It explains and is not a claim."""
    by_end_to_end: Interval | None
    speed: Claim | None
    """The claim on request speed: output tokens by end-to-end latency, or the latency alone where
    ``longer``. None, like ``cost``, where there is no verdict."""
    cost: Claim | None
    """The claim on the cost of a token, or of an answer where ``by_tokens`` is set."""
    verdict: Verdict
    lengths: Interval | None = None
    """The ratio of mean output tokens an answer; above 1 where the cell's answers are longer."""
    by_tokens: Interval | None = None
    """The cost of a token, where ``cost`` is that of an answer because lengths may differ."""
    longer: bool = False
    """Whether answers are surely longer, or shorter."""
    waits: tuple[Wait, ...] = ()
    """Waits that are clearly longer; none where the cell is slower anyway."""
    classes: tuple[tuple[str, Interval], ...] = ()
    """Speed by class of a set's prompts, where classes surely differ."""
    idle: float = 0.0
    """The share of a set's prompts that gain nothing while others surely gain."""

    @property
    def speedup(self) -> Interval | None:
        """The interval that the verdict on speed rests on."""
        return self.speed.interval if self.speed else None
