"""The summary of a run: what ``summarise`` computes and ``summary.json`` holds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import to_jsonable_python

from spectap.analysis.estimate import MARGIN, Interval
from spectap.analysis.verdicts import Comparison
from spectap.inputs.config import Objectives
from spectap.inputs.load_points import LoadPoint
from spectap.inputs.prompt import UsedSet
from spectap.inputs.published import Publication
from spectap.metrics import Metric

TOLERATED_FAILURES: Final = 0.5  # beyond, the median over all requests is itself a failed one


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of a sample, linearly interpolated, in the sample's unit."""

    count: int
    p50: float
    p90: float
    p99: float
    typical: Interval | None
    """The median of a typical round; None for too few rounds, and for chunks."""


class Doubt(Enum):
    """The reason to doubt that an event is a step: a server may hold tokens back."""

    UNCONFIRMED = "nothing confirms it"
    CONTRADICTED = "the server counts other steps"


@dataclass(frozen=True)
class Steps:
    """Tokens per decoding step after the first chunk; per event where there is a doubt."""

    mean: float
    """Tokens after the first chunks, by chunks after the first, over all requests."""
    interval: Interval | None
    histogram: tuple[tuple[int, int], ...]
    """Pairs of (tokens, number of steps)."""
    doubt: Doubt | None = None


@dataclass(frozen=True)
class Goodput:
    """The share of requests that met all objectives at once, 0 to 1. A failed one meets none."""

    share: float
    interval: tuple[float, float] | None
    """The 95 % interval, with the round as the unit; None for too few rounds."""
    met: bool
    """Whether nine tenths of all requests keep each limit. A failed request keeps none."""


@dataclass(frozen=True)
class Cell:
    """One variant under one test case at one load point. None: not known, or not applicable."""

    variant: str
    test_case: str
    load: LoadPoint | None
    requests: int
    errors: int
    most_frequent_error: str | None
    repeated_errors: int
    """Failures in turns that were measured again. Only the cost includes them."""
    expected: int | None
    missing: int
    measures: Mapping[str, Percentiles]
    """Percentiles of each metric that has values, by its name and in its unit."""
    tokens_per_second: float | None
    """Tokens a second of all requests together while the load has all its requests in flight."""
    tokens_per_second_interval: Interval | None
    usd_per_million_output_tokens: float | None
    """None in an open loop and where the cell is not complete."""
    usd_per_million_output_tokens_interval: Interval | None
    steps: Steps | None
    """None unless the tokens of each chunk are known."""
    tools: bool = False
    model: str = ""
    """The model that answers name, where it is not the one asked for; else empty."""
    uncounted: int = 0
    """Complete answers without a count of tokens. No figure of tokens includes them."""
    hidden_tokens: float = 0.0
    """Tokens of thoughts that were counted and not streamed, the mean over answers."""
    characters_per_token: float | None = None
    """None where some tokens are no text and where nothing was streamed."""
    sent_again: float = 0.0
    """How often each named prompt was sent, where a cache may have answered; else 0."""
    in_flight: float | None = None
    """Requests in flight, on average over the time in which there was any."""
    goodput: Goodput | None = None
    late: float | None = None
    """The p99 of how late an open loop sent its requests, in seconds."""
    lagging: bool = False
    """Whether requests were so late that the load was not the one it is called."""
    queued: bool = False
    lag: float = 0.0
    """The mean wait of an event for the client, as a part of a request's time."""
    comparison: Comparison | None = None

    @property
    def unreliable(self) -> bool:
        return self.errors > TOLERATED_FAILURES * self.requests

    @property
    def countless(self) -> bool:
        """Whether it has answers and the tokens of none are known."""
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
    """The load, interpolated; None where the ratio does not cross 1 between two load points."""
    better_up_to: float | None
    """The highest load up to which the variant is better at every load; None without one."""
    worse_from: float | None
    """The lowest load from which on the variant is worse at every load; None without one."""

    @property
    def bounded(self) -> bool:
        """Whether the crossing has both bounds of its 95 % interval."""
        return self.better_up_to is not None and self.worse_from is not None


@dataclass(frozen=True)
class Ladder:
    """A variant against its baseline, over the loads of one kind at which a test case ran."""

    variant: str
    baseline: str
    loads: tuple[LoadPoint, ...]
    judged: tuple[LoadPoint, ...]
    """Loads with an estimate. The others have no verdict."""
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
    """The number of prompts that both sides answered with answers that could be checked."""
    rate: float
    rate_interval: tuple[float, float]
    baseline_rate: float
    baseline_interval: tuple[float, float]
    difference: float
    """The variant's rate less the baseline's. Below 0 the variant is worse."""
    difference_interval: tuple[float, float]
    worse: bool
    """Whether the variant is worse by more than chance, among all checks of the report."""
    only_baseline: tuple[str, ...]
    """Some prompts that the baseline answered rightly more often."""
    lost: int
    """The number of prompts that the variant answers rightly less often than the baseline."""
    won: int
    blind: bool
    """Whether the baseline passes too seldom for a fall to be found."""
    left_out: tuple[int, int] = (0, 0)
    """The numbers of answers that could not be checked: the variant's, the baseline's."""


@dataclass(frozen=True)
class Reproduction:
    """A publication and the measured counterparts of its figures. Nothing else uses them."""

    publication: Publication
    measured: tuple[Interval | None, ...]
    """The counterpart of each figure; no width for too few rounds. None: not measured."""


@dataclass(frozen=True)
class Matched:
    """A variant that is served without a feature of its baseline, and what that costs."""

    variant: str
    baseline: str
    without: str
    matched: str | None
    """The baseline that lacks the feature too; None without one."""
    speeds: tuple[tuple[LoadPoint, Interval, Interval], ...] = ()
    """At each load, over all test cases: the speed-up over the matched and the other baseline."""


@dataclass(frozen=True)
class Case:
    """One test case: a cell for each load point and variant, in that order."""

    name: str
    structure: str
    """Empty where it is not known, and for a prompt set, whose prompts have classes."""
    headline: bool
    cells: tuple[Cell, ...]
    ladders: tuple[Ladder, ...] = ()

    @property
    def compared(self) -> tuple[tuple[Cell, Comparison], ...]:
        return tuple((cell, cell.comparison) for cell in self.cells if cell.comparison)

    @property
    def loads(self) -> tuple[LoadPoint | None, ...]:
        """The load points in order; a single None where they are not known."""
        return tuple(dict.fromkeys(cell.load for cell in self.cells))

    def baseline_of(self, cell: Cell) -> Cell:
        """The baseline cell of a compared cell, at the same load."""
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
    """The mean of a variant over the test cases of a class that have a verdict."""

    structure: str
    load: LoadPoint | None
    variant: str
    baseline: str
    cases: int
    speed: Interval | None
    cost: Interval | None
    """Above 1 where all requests together get more tokens a second, so that a token costs less."""


@dataclass(frozen=True)
class Window:
    """A measured variant. A baseline has no draft and no window."""

    variant: str
    mode: str | None
    draft: str | None
    window: int | None
    speed: Interval
    """The speed of one request relative to its baseline; 1 for a baseline."""
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
    """The number of turns that a run left out when it ended early."""
    launches: int = 1
    """The number of launches of each server. With one, no interval covers their difference."""

    published: tuple[Reproduction, ...] = ()
    windows: tuple[Windows, ...] = ()
    """Each class at each load at which several windows were measured."""
    matched: tuple[Matched, ...] = ()
    halves: Mapping[str, Interval] = field(default_factory=dict)
    """The speed of a request in the last half of the rounds relative to the first half, for each
    variant that surely changed by more than matters."""
    drift: float | None = None
    """The change that control loads show between variants that were measured one after another:
    0.01 is 1 %. None without such controls."""
    repeated: int = 0
    """The number of requests in turns that were measured again. Only the cost includes them."""
    repeated_failures: int = 0
    round_gap_seconds: float | None = None
    """The median time between the starts of a test case's rounds; None with one round."""
    version: Literal[1] = 1
    """The version of this format."""

    @property
    def configured(self) -> bool:
        """Whether the run has a configuration. Ledgers alone have none."""
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
