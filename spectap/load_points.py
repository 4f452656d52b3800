"""How hard the variants are driven, and with what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spectap.rounds import Rounds

MINIMUM_INPUT_TOKENS: Final = 41
"""The shortest mean prompt, in tokens of Llama's tokenizer: the minimum that llmperf itself names
(ray-project/llmperf @f1d6bed, ``token_benchmark_ray.py``: "the minimum number of input tokens that
will be sent is 41").

llmperf redraws a prompt's length while it is less than that of its own instruction
(``src/llmperf/utils.py``, ``randomly_sample_sonnet_lines_prompt``). With no deviation and a mean
below that, it never ends. The instruction takes about 27 tokens, so 41 is safe.
"""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Loop(_Model):
    """How hard the variants are driven: requests at once (closed loop), or a second (open loop)."""

    concurrency: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Requests in flight: a closed loop.",
        exclude_if=lambda value: value is None,
    )
    rate: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="Requests a second, at the times of a Poisson process: an open loop.",
        exclude_if=lambda value: value is None,
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
        """Whether requests are sent at their times, however many are in flight."""
        return self.rate is not None

    def __str__(self) -> str:
        """In words, to stand after "at"."""
        if self.rate is None:
            return f"concurrency {self.concurrency}"
        return f"{self.rate:g} request{'' if self.rate == 1 else 's'} a second"


class LoadPoint(Loop):
    """A load at which each test case is measured, and with how many requests."""

    requests: Annotated[int, Field(ge=1)] = Field(
        description="For each test case and variant, in each round."
    )


class Load(_Model):
    """What is asked of the variants, and how hard. Token counts are in llmperf's terms."""

    mean_input_tokens: Annotated[int, Field(ge=MINIMUM_INPUT_TOKENS)]
    stddev_input_tokens: Annotated[int, Field(ge=0)] = 0
    mean_output_tokens: Annotated[int, Field(ge=2)]
    stddev_output_tokens: Annotated[int, Field(ge=0)] = 0
    points: Annotated[tuple[LoadPoint, ...], Field(min_length=1)]
    rounds: Rounds
    timeout_seconds: Annotated[
        int, Field(ge=1, description="For one test case at one load point in one round.")
    ]
    sampling: Mapping[str, Any] = Field(
        default_factory=dict, description="Sent with each request as it is."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Load:
        counts = Counter(point.name for point in self.points)
        if repeated := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"points: {', '.join(repeated)} is duplicated")
        return self

    def point(self, name: str) -> LoadPoint:
        """The load point of that name; the first, for an empty name. Raises KeyError."""
        return {point.name: point for point in self.points}[name] if name else self.points[0]
