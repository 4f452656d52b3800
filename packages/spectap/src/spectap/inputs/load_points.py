"""The load of a run: how hard variants are driven, with what, and how often."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from spectap import wording
from spectap.protocol import limits
from spectap.protocol.text import EndpointType

MINIMUM_INPUT_TOKENS: Final = 41
"""The shortest mean prompt, in tokens of Llama's tokenizer: the minimum that llmperf states
(ray-project/llmperf @f1d6bed, ``token_benchmark_ray.py``). Below the length of its instruction,
about 27, and without deviation, llmperf never stops redrawing (``src/llmperf/utils.py``)."""

FEWEST_ROUNDS: Final = 3
"""The fewest rounds of an interval. With two, Student's t has one degree of freedom."""


def optional(default: Any, description: str, **rules: Any) -> Any:
    """A field that a file may omit, with its default."""
    return Field(
        default, description=description, exclude_if=lambda value: value == default, **rules
    )


def repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


class Model(BaseModel):
    """A model that refuses unknown keys and infinite numbers, and that cannot be changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Loop(Model):
    """How hard variants are driven: requests at once (closed loop), or a second (open loop)."""

    concurrency: Annotated[int, Field(ge=1, le=10**5)] | None = optional(
        None, "Requests in flight: a closed loop."
    )
    rate: Annotated[float, Field(gt=0, le=1e6)] | None = optional(
        None, "Requests a second, at the times of a Poisson process: an open loop."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Loop:
        if (self.concurrency is None) == (self.rate is None):
            raise ValueError("needs either concurrency or rate")
        return self

    @property
    def name(self) -> str:
        """``concurrency-4`` or ``rate-0.5``: a folder, a CloudWatch dimension, a ledger's field."""
        if self.rate is None:
            return f"concurrency-{self.concurrency}"
        return f"rate-{self.rate:g}"

    @property
    def amount(self) -> float:
        """Requests at once, or a second."""
        return float(self.rate or self.concurrency or 0)

    @property
    def open(self) -> bool:
        """Whether it is an open loop, whose requests have times, however many are in flight."""
        return self.rate is not None

    def __str__(self) -> str:
        """The load in words, to follow "at"."""
        if self.rate is None:
            return f"concurrency {self.concurrency}"
        return f"{self.rate:g} request{'' if self.rate == 1 else 's'} a second"


class LoadPoint(Loop):
    """A load at which each test case is measured, and with how many requests."""

    requests: Annotated[int, Field(ge=1, le=10**6)] = Field(
        description="For each test case and variant, in each round."
    )

    @property
    def fill(self) -> int:
        """The number of requests that fill a closed loop before those that count; at most one wave.

        Otherwise those that count would begin on an empty server, which hides a queue.
        """
        return self.concurrency if self.concurrency and self.concurrency > 1 else 0


def kinds(points: Iterable[LoadPoint]) -> list[tuple[LoadPoint, ...]]:
    """The load points by kind, closed loops first, each from the lowest up."""
    ordered = sorted(points, key=lambda point: point.amount)
    kinds = (tuple(p for p in ordered if p.open is is_open) for is_open in (False, True))
    return [kind for kind in kinds if kind]


def listed(points: Collection[LoadPoint]) -> str:
    """Load points, to follow "at": ``concurrency 1, 2 and 4, and 0.5 requests a second``."""
    closed, rates = ([f"{p.amount:g}" for p in points if p.open is kind] for kind in (False, True))
    kinds = [f"concurrency {wording.listed(closed)}"] if closed else []
    if rates:
        kinds.append(f"{wording.listed(rates)} request{'' if rates == ['1'] else 's'} a second")
    return ", and ".join(kinds)


class Rounds(Model):
    """The number of rounds of each test case: a whole number, or a range.

    In a range, a test case is measured until it is decided, or until its intervals reach no further
    than 5 % from their estimates.
    """

    model_config = ConfigDict(strict=True)

    # at_most comes first, because at_least is checked against it.
    at_most: Annotated[
        int, Field(ge=1, le=10**4, description="Rounds of a test case that stays undecided.")
    ]
    at_least: Annotated[int, Field(ge=1, description="Rounds of every test case.")]

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, data: Any) -> Any:
        """A whole number stands for that many rounds, no fewer and no more."""
        if isinstance(data, int) and not isinstance(data, bool):
            if data < 1:
                raise ValueError("must be at least 1")
            return {"at_least": data, "at_most": data}
        if not isinstance(data, (Mapping, cls)):
            raise ValueError("must be a whole number, or a mapping with at_least and at_most")
        return data

    @field_validator("at_least")
    @classmethod
    def _in_range(cls, value: int, info: ValidationInfo) -> int:
        most = info.data.get("at_most", value)
        if value > most:
            raise ValueError(f"must be at most {most}, which is at_most")
        if value < most and value < FEWEST_ROUNDS:
            raise ValueError(f"must be at least {FEWEST_ROUNDS}, the fewest that an interval needs")
        return value

    @model_serializer(mode="wrap")
    def _as_number(self, serialize: SerializerFunctionWrapHandler) -> Any:
        return self.at_most if self.fixed else serialize(self)

    @property
    def fixed(self) -> bool:
        """Whether every test case gets the same number of rounds."""
        return self.at_least == self.at_most

    def __str__(self) -> str:
        if self.fixed:
            return wording.count(self.at_most, "round")
        return f"{self.at_least} to {self.at_most} rounds"


class Load(Model):
    """The load on the variants. Token counts are in llmperf's terms."""

    mean_input_tokens: Annotated[int, Field(ge=MINIMUM_INPUT_TOKENS, le=limits.TOKENS)]
    stddev_input_tokens: Annotated[int, Field(ge=0, le=limits.TOKENS)] = 0
    mean_output_tokens: Annotated[int, Field(ge=2, le=limits.TOKENS)]
    stddev_output_tokens: Annotated[int, Field(ge=0, le=limits.TOKENS)] = 0
    points: Annotated[tuple[LoadPoint, ...], Field(min_length=1)]
    rounds: Rounds
    timeout_seconds: Annotated[
        int, Field(ge=1, le=10**7, description="For one test case at one load point in one round.")
    ]
    spread_minutes: float = optional(
        0,
        "From the first turn of the first round to that of the last, at least: rounds wait, "
        "unevenly. 0: each follows the last at once.",
        ge=0,
        le=10**6,
    )
    endpoint_type: EndpointType = optional(
        EndpointType.CHAT,
        "chat: /v1/chat/completions, which applies the model's chat template. completions: "
        "/v1/completions, which takes a prompt's text as it is.",
    )
    sampling: Mapping[str, Any] = Field(
        default_factory=dict, description="Sent with each request as it is."
    )
    launches: int = optional(
        1,
        "How often the servers are launched: the rounds are split into as many equal blocks, and "
        "the servers are restarted between two.",
        ge=1,
    )

    @model_validator(mode="after")
    def _consistent(self) -> Load:
        if self.launches > 1:
            if self.launches < FEWEST_ROUNDS:
                raise ValueError(
                    f"launches: must be 1 or at least {FEWEST_ROUNDS}, the fewest that an interval "
                    "needs"
                )
            if not self.rounds.fixed or self.rounds.at_most % self.launches:
                raise ValueError(f"launches: rounds must be a multiple of {self.launches}")
        if names := repeated(point.name for point in self.points):
            raise ValueError(f"points: {', '.join(names)} is duplicated")
        return self

    def launch(self, round: int) -> int:
        """The launch of the servers that a round is measured in, from 1. It is 0 with a single
        launch, and for rounds that no figure uses."""
        if self.launches == 1 or round < 1:
            return 0
        return 1 + (round - 1) * self.launches // self.rounds.at_most

    def begins(self, run: str) -> list[float]:
        """The times at which rounds are due, in seconds after the first.

        Gaps vary from a quarter to seven quarters of their mean, and differ between runs. So they
        are no multiple of the period of another load, such as a job every five minutes.
        """
        chance = random.Random(run)
        ends = [*accumulate(chance.uniform(0.25, 1.75) for _ in range(1, self.rounds.at_most))]
        return [0.0, *(60 * self.spread_minutes * end / ends[-1] for end in ends)]

    def point(self, name: str) -> LoadPoint:
        """The load point of that name; the first for an empty name. Raises KeyError."""
        return {point.name: point for point in self.points}[name] if name else self.points[0]
