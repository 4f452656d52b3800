"""What the benchmark is told to do: one JSON file, checked before anything is started."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from benchmark.errors import ConfigError
from benchmark.names import VARIANTS

# llmperf draws prompt lengths until one is at least as long as its own instruction: with a mean
# below that it draws for ever. The instruction takes 25 to 28 Llama tokens, as long as the answer's
# length in it has digits; 41 is the minimum llmperf states (token_benchmark_ray.py @f1d6bed).
MINIMUM_INPUT_TOKENS: Final = 41

# Errors of one file; more would be scrolled past.
MOST_SHOWN: Final = 20

Text = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Structure(str, Enum):
    """Whether a prompt's continuation is predictable."""

    STRUCTURED = "structured"
    OPEN_ENDED = "open-ended"

    def __str__(self) -> str:
        return self.value


class TestCase(_Model):
    """One prompt to compare the endpoints on. ``line`` None stands for llmperf's own text."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    # A folder, a part of an object key and a CloudWatch dimension are made of it.
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    line: Text | None
    structure: Structure
    headline: bool = False


class Load(_Model):
    """The load in llmperf's terms: closed-loop, ``requests`` per case, round and endpoint.

    Lengths are in tokens; ``timeout_seconds`` is for one case and round; ``sampling`` is sent
    with each request as it is.
    """

    mean_input_tokens: Annotated[int, Field(ge=MINIMUM_INPUT_TOKENS)]
    stddev_input_tokens: Annotated[int, Field(ge=0)] = 0
    mean_output_tokens: Annotated[int, Field(ge=2)]
    stddev_output_tokens: Annotated[int, Field(ge=0)] = 0
    concurrency: Annotated[int, Field(ge=1)]
    requests: Annotated[int, Field(ge=1)]
    rounds: Annotated[int, Field(ge=1)]
    timeout_seconds: Annotated[int, Field(ge=1)]
    sampling: Mapping[str, Any] = Field(default_factory=dict)


class Cost(_Model):
    """What the hardware costs.

    ``price_of``: which purchase option in which region the price is of; empty in configurations
    from before it was said. ``share``: the part of the hardware that one endpoint has, in (0, 1].
    """

    usd_per_hour: Annotated[float, Field(gt=0)]
    price_of: str = ""
    as_of: Text
    share: Annotated[float, Field(gt=0, le=1)]
    denominator: Text

    @property
    def price(self) -> str:
        """Whose price it is and of when, in words."""
        return f"as of {self.as_of}" + (f", {self.price_of}" if self.price_of else "")


class Config(_Model):
    """One run's input. ``stand_in``: what serves in place of the services on Trainium, if any."""

    experiment: Text
    model: Text
    endpoints: Mapping[str, Annotated[str, Field(pattern=r"^https?://[^/?#]+(/[^?#]*)?$")]]
    region: Text
    bucket: Text
    load: Load
    test_cases: Annotated[tuple[TestCase, ...], Field(min_length=1)]
    cost: Cost
    settings: Mapping[str, str] = Field(default_factory=dict)
    stand_in: Text | None = None

    @field_validator("endpoints")
    @classmethod
    def _one_of_each(cls, endpoints: Mapping[str, str]) -> Mapping[str, str]:
        if set(endpoints) != set(VARIANTS):
            raise ValueError(f"must name {' and '.join(VARIANTS)}, no more and no less")
        return endpoints

    @model_validator(mode="after")
    def _names_are_unique(self) -> Config:
        counts = Counter(case.name for case in self.test_cases)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"test_cases: {', '.join(twice)} is there twice; names must be unique")
        return self


def load(path: Path) -> Config:
    """Reads a configuration. Raises ConfigError, whose text is a line for each error."""
    try:
        return Config.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ConfigError("\n".join(f"{path}: {line}" for line in _lines(error))) from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON: {error}") from None


def dump(config: Config) -> str:
    """The configuration as JSON; ``load`` reads it back."""
    return config.model_dump_json(indent=2) + "\n"


def _lines(error: ValidationError) -> list[str]:
    problems = error.errors(include_url=False)
    lines = [_line(problem) for problem in problems if not _follows(problem)]
    if len(lines) > MOST_SHOWN:
        lines[MOST_SHOWN:] = [f"and {len(lines) - MOST_SHOWN} more"]
    return lines


def _follows(problem: ErrorDetails) -> bool:
    # A list is too short as well once its bad items are not counted.
    return problem["type"] == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"]


def _line(problem: ErrorDetails) -> str:
    field = _field(problem["loc"])
    value = "" if problem["type"] in ("missing", "value_error") else f" = {problem['input']!r:.80}"
    allowed = problem["msg"].removeprefix("Value error, ")
    return f"{field}{value}: {allowed}".removeprefix(": ")


def _field(location: Iterable[int | str]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")
