"""The summary of a run: what ``summarise`` computes and ``summary.json`` holds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import to_jsonable_python

from spectap.analysis.estimate import MARGIN, Interval
from spectap.inputs.config import Objectives
from spectap.inputs.load_points import LoadPoint
from spectap.inputs.prompt import UsedSet
from spectap.inputs.published import Publication
from spectap.metrics import Metric

TOLERATED_FAILURES: Final = 0.5  # beyond, the median over all requests is itself a failed one


@dataclass(frozen=True)
class Percentiles:
    """Linearly interpolated, in the sample's unit."""

    count: int
    p50: float
    p90: float
    p99: float
    typical: Interval | None
    """The median of a typical round; None where there are too few, and for chunks."""


class Doubt(Enum):
    """Why the events of a stream may be no steps: a server may hold tokens back."""

    UNCONFIRMED = "nothing confirms it"
    CONTRADICTED = "the server counts other steps"


@dataclass(frozen=True)
class Steps:
    """Tokens in each decoding step after the first chunk; in each event, where there is a doubt."""

    mean: float
    """The mean over all requests: tokens after first chunks by chunks after the first."""
    interval: Interval | None
    histogram: tuple[tuple[int, int], ...]
    """Pairs of (tokens, number of steps)."""
    doubt: Doubt | None = None


class Answer(Enum):
    """The answer to one question. ``summary.json`` has the value."""

    BETTER = "better"
    WORSE = "worse"
    NEGLIGIBLE = "negligible"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Claim:
    """The answer to one question about a cell and its baseline. Above 1 the cell is better."""

    interval: Interval
    answer: Answer
    detectable: float
    """The smallest difference that is found four times in five: 0.06 is 6 %."""
    settles: float
    """The difference that a longer run would find: the one seen, but at least ``MARGIN``."""
    rounds_needed: int | None
    """How many rounds such a run has; None where this one has them, or none is long enough."""


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
    """The finding on a cell against its baseline's, and the action it calls for."""

    finding: Finding
    action: Action | None = None
    """None where nothing is decided, and in a rehearsal."""
    rounds: int | None = None
    """Rounds that both sides have, where they are too few."""
    shared: float | None = None
    """The part of the shorter recording that overlaps, where they are of different times."""


@dataclass(frozen=True)
class Wait:
    """A wait that is clearly longer than the baseline's."""

    metric: str
    percentile: str
    seconds: float
    baseline_seconds: float


@dataclass(frozen=True)
class Comparison:
    """A cell against its baseline's. Each ratio is above 1 where the cell is better."""

    baseline: str
    by_time_per_output_token: Interval | None
    """Decoding speed, without queue and first token. It explains, and is not a claim."""
    by_end_to_end: Interval | None
    speed: Claim | None
    """By request speed: output tokens of one request by its end-to-end latency; by the latency
    alone where ``longer``. None, like ``cost``, where there is no verdict."""
    cost: Claim | None
    """The claim on a token's cost; on an answer's where ``by_tokens`` is not None."""
    verdict: Verdict
    lengths: Interval | None = None
    """Mean output tokens of an answer, above 1 where those of the cell are longer."""
    by_tokens: Interval | None = None
    """The cost of a token where ``cost`` is that of an answer, because lengths may differ."""
    longer: bool = False
    """Whether answers are surely longer, or shorter."""
    waits: tuple[Wait, ...] = ()
    """Waits that are clearly longer, where it is not slower anyway."""
    classes: tuple[tuple[str, Interval], ...] = ()
    """Speed by class of a set's prompts, where these surely differ."""
    idle: float = 0.0
    """The share of a set's prompts that gain nothing, where others surely do."""

    @property
    def speedup(self) -> Interval | None:
        """The interval that the verdict on speed rests on."""
        return self.speed.interval if self.speed else None


@dataclass(frozen=True)
class Goodput:
    """The share of requests that met all objectives at once, 0 to 1. A failed one meets none."""

    share: float
    interval: tuple[float, float] | None
    """95 %, with the round as the unit; None where there are too few."""
    met: bool
    """Whether nine tenths of the requests keep each limit: a failed one keeps none."""


@dataclass(frozen=True)
class Cell:
    """One variant under one test case at one load point. None: not known, or not there."""

    variant: str
    test_case: str
    load: LoadPoint | None
    requests: int
    errors: int
    most_frequent_error: str | None
    repeated_errors: int
    """Failures in turns that were measured again: of the figures, in the cost alone."""
    expected: int | None
    missing: int
    measures: Mapping[str, Percentiles]
    """Percentiles of each metric that has values, by its name and in its unit."""
    tokens_per_second: float | None
    """The speed of all requests together, while as many are in flight as the load has."""
    tokens_per_second_interval: Interval | None
    usd_per_million_output_tokens: float | None
    """None in an open loop, and where the cell is not complete."""
    usd_per_million_output_tokens_interval: Interval | None
    steps: Steps | None
    """None unless each chunk is a step, and its tokens were counted."""
    tools: bool = False
    model: str = ""
    """A model that answers name, where it is not the one that was asked for."""
    uncounted: int = 0
    """Answers that came whole, and whose tokens nobody knows: they are in no figure of tokens."""
    hidden_tokens: float = 0.0
    """Mean tokens of thoughts in an answer that were counted and not streamed."""
    characters_per_token: float | None = None
    """None where a part of the tokens is no text, and where nothing was streamed."""
    sent_again: float = 0.0
    """How often each prompt with a name was sent, where a cache may have answered; else 0."""
    in_flight: float | None = None
    """Requests in flight, on average over the time in which there was any."""
    goodput: Goodput | None = None
    late: float | None = None
    """How late an open loop sent its requests, in seconds: the p99."""
    lagging: bool = False
    """Whether that made it another load than it says."""
    queued: bool = False
    lag: float = 0.0
    """How long an event waited for the client, on average, as a part of a request's time."""
    comparison: Comparison | None = None

    @property
    def unreliable(self) -> bool:
        return self.errors > TOLERATED_FAILURES * self.requests

    @property
    def countless(self) -> bool:
        """Whether it has answers, and nobody knows the tokens of any."""
        return 0 < self.uncounted == self.requests - self.errors

    @property
    def slowed(self) -> bool:
        return self.lag > MARGIN

    @property
    def complete(self) -> bool:
        return self.missing == 0

    def measure(self, metric: Metric) -> Percentiles | None:
        return self.measures.get(metric.name)


@dataclass(frozen=True)
class Crossover:
    """The load, in requests at once or a second, at which a ratio to the baseline falls below 1."""

    point: float | None
    """Interpolated between two load points; None where the ratio does not cross 1 among them."""
    better_up_to: float | None
    """The highest load at which it is better, and at all below; None where that is none."""
    worse_from: float | None
    """The lowest load at which it is worse, and at all above; None where that is none."""

    @property
    def bounded(self) -> bool:
        """Whether both bounds of the load at which it turns are known: a 95 % interval."""
        return self.better_up_to is not None and self.worse_from is not None


@dataclass(frozen=True)
class Ladder:
    """A variant against its baseline, over the loads of one kind at which a test case ran."""

    variant: str
    baseline: str
    loads: tuple[LoadPoint, ...]
    judged: tuple[LoadPoint, ...]
    """Loads that have an estimate; the others have no verdict."""
    speed: Crossover
    cost: Crossover


@dataclass(frozen=True)
class Correctness:
    """How often the answers of both sides pass one check of a test case."""

    test_case: str
    variant: str
    baseline: str
    check: str
    prompts: int
    """Prompts that both sides answered, and whose answers could be checked."""
    rate: float
    rate_interval: tuple[float, float]
    baseline_rate: float
    baseline_interval: tuple[float, float]
    difference: float
    """The variant's rate less the baseline's: below 0 it is worse."""
    difference_interval: tuple[float, float]
    worse: bool
    """Whether it is worse by more than chance, among all checks of the report."""
    only_baseline: tuple[str, ...]
    """Some prompts that only the baseline answered rightly, or more often."""
    lost: int
    """Prompts that the variant answers rightly less often than the baseline does."""
    won: int
    blind: bool
    """Whether the baseline passes too seldom for any fall to be found."""
    left_out: tuple[int, int] = (0, 0)
    """Answers of the variant and of the baseline that could not be checked."""


@dataclass(frozen=True)
class Reproduction:
    """A publication and what was measured of it; nothing else is derived from it."""

    publication: Publication
    measured: tuple[Interval | None, ...]
    """Each of its figures; without width where rounds are too few. None: not measured."""


@dataclass(frozen=True)
class Matched:
    """A variant that is served without something that its baseline has, and what that costs."""

    variant: str
    baseline: str
    without: str
    matched: str | None
    """The baseline that is served without it, too; None where there is none."""
    speeds: tuple[tuple[LoadPoint, Interval, Interval], ...] = ()
    """At each load, over all test cases: the speed-up over the matched baseline, and over the
    other."""


@dataclass(frozen=True)
class Case:
    """One test case: a cell for each load point and variant, in their orders."""

    name: str
    structure: str
    """Empty where it is not known, and for a set of prompts, which has classes of its own."""
    headline: bool
    cells: tuple[Cell, ...]
    ladders: tuple[Ladder, ...] = ()

    @property
    def compared(self) -> tuple[tuple[Cell, Comparison], ...]:
        return tuple((cell, cell.comparison) for cell in self.cells if cell.comparison)

    @property
    def loads(self) -> tuple[LoadPoint | None, ...]:
        """In their order; a single None where nobody knows them."""
        return tuple(dict.fromkeys(cell.load for cell in self.cells))

    def baseline_of(self, cell: Cell) -> Cell:
        """The cell that a compared one is compared with: at its load, whose name may be unknown."""
        assert cell.comparison is not None
        variants = len({each.variant for each in self.cells})
        first = self.cells.index(cell) // variants * variants
        at_load = {each.variant: each for each in self.cells[first : first + variants]}
        return at_load[cell.comparison.baseline]

    def cell(self, variant: str, load: LoadPoint | None = None) -> Cell:
        """The cell of one variant, at the first load point unless one is named. Raises KeyError."""
        cells = (each for each in self.cells if load is None or each.load == load)
        return {cell.variant: cell for cell in reversed([*cells])}[variant]


@dataclass(frozen=True)
class Overall:
    """A variant against its baseline over the test cases of a class that have a verdict."""

    structure: str
    load: LoadPoint | None
    variant: str
    baseline: str
    cases: int
    speed: Interval | None
    cost: Interval | None
    """Above 1 where all requests together get more tokens a second, so where a token costs less."""


@dataclass(frozen=True)
class Window:
    """A variant among those that were measured; a baseline has no draft and no window."""

    variant: str
    mode: str | None
    draft: str | None
    window: int | None
    speed: Interval
    """The speed of one request, over its baseline's; 1 for a baseline."""
    tokens_per_step: float | None
    near: bool
    """Whether it is, or may be, within 2 % of the best."""


@dataclass(frozen=True)
class Windows:
    """The measured variants on a class of prompts at a load, fastest first."""

    prompts: str
    load: LoadPoint
    measured: tuple[Window, ...]


@dataclass(frozen=True)
class Summary:
    """A run, or ledgers alone. ``started`` and ``ended`` are Unix seconds; None: not known."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)

    run: str | None
    experiment: str | None
    model: str | None
    loads: tuple[LoadPoint, ...]
    objectives: Objectives | None
    started: float | None
    ended: float | None
    cost_denominator: str | None
    variants: tuple[str, ...]
    cases: tuple[Case, ...]
    overall: tuple[Overall, ...]
    correctness: tuple[Correctness, ...]
    sets: tuple[UsedSet, ...]
    rehearsal: bool
    not_run: int = 0
    """Turns after the end of a run that ended early: what was measured before stands for itself."""
    launches: int = 1
    """How often each server was to be launched; with one, no interval has what launches differ in.
    """

    published: tuple[Reproduction, ...] = ()
    windows: tuple[Windows, ...] = ()
    """One for each class at each load where more than one window was measured."""
    matched: tuple[Matched, ...] = ()
    halves: Mapping[str, Interval] = field(default_factory=dict)
    """The speed of a request in the last half of the rounds by that in the first, of each variant
    that surely changed by more than matters."""
    drift: float | None = None
    """How much variants that were measured one after another changed meanwhile, by their control
    loads: 0.01 is 1 %. None where no control shows it."""
    repeated: int = 0
    """Requests of turns that were measured again, which are in no figure but the cost."""
    repeated_failures: int = 0
    round_gap_seconds: float | None = None
    """From the begin of a test case's round to that of its next, the median; None with one round.
    """
    version: Literal[1] = 1
    """The version of this format."""

    @property
    def configured(self) -> bool:
        """Whether a configuration says what was to be measured; ledgers alone do not."""
        return self.experiment is not None

    @property
    def complete(self) -> bool:
        return not self.not_run and all(c.complete for case in self.cases for c in case.cells)

    @property
    def compares(self) -> bool:
        return any(case.compared for case in self.cases)

    @property
    def subject(self) -> str:
        """The variants compared: ``k3, k7 against Base``; a variant alone by its name."""
        pairs = {c.variant: each.baseline for case in self.cases for c, each in case.compared}
        return "; ".join(
            f"{', '.join(name for name in pairs if pairs[name] == baseline)} against {baseline}"
            for baseline in dict.fromkeys(pairs.values())
        ) or ", ".join(self.variants)


def to_json(content: object) -> str:
    """The JSON of a summary, or of any result: fields by their names, findings by their values."""
    return json.dumps(to_jsonable_python(content), indent=2, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of ``summary.json``, as summary.schema.json beside the package has it."""
    described = TypeAdapter(Summary).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | described
