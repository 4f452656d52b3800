"""The measurement in an experiment file: test cases, load points and objectives."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from experiment.fields import (
    DISTINCT,
    Image,
    PromptFileName,
    PromptLine,
    Strict,
    TestCaseName,
    Text,
    refused,
)
from spectap.inputs import load_points, prompt
from spectap.inputs.config import Objectives, Structure
from spectap.inputs.load_points import Rounds
from spectap.inputs.prompt import Prompt
from spectap.load import sets
from spectap.protocol.text import EndpointType

MOST_ROUNDS: Final = 100
MOST_CASES: Final = 35
"""The most test cases. A dashboard has 13 widgets for each, and 500 at most (Amazon CloudWatch User
Guide, "CloudWatch service quotas")."""


def one_of(*keys: str) -> Callable[[dict[str, Any]], None]:
    """Makes the JSON Schema refuse none of these keys, and several of them."""
    return lambda schema: schema.update(oneOf=[{"required": [key]} for key in keys])


def _known_set(name: str | None) -> str | None:
    if name is not None and name not in sets.KNOWN:
        raise ValueError(f"must be one of {', '.join(sets.KNOWN)}")
    return name


def _name_known_sets(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"enum": [*sets.KNOWN], "type": "string"}, {"type": "null"}]


@dataclass(frozen=True)
class PromptFile:
    """The user's own prompts: a file beside the experiment's, with its content."""

    content: bytes
    prompts: tuple[Prompt, ...]

    @classmethod
    def read(cls, path: Path) -> PromptFile:
        """Reads the file at ``path``. Raises ConfigError with a line for each bad line of it."""
        content = prompt.read_content(path)
        return cls(content, prompt.parse(content, str(path)))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def classes(self) -> Mapping[str, int]:
        return Counter(prompt.prompt_class for prompt in self.prompts)

    @property
    def has_tools(self) -> bool:
        return any(prompt.tools for prompt in self.prompts)

    @property
    def is_text(self) -> bool:
        return all(prompt.is_text for prompt in self.prompts)


class TestCase(Strict):
    """Prompts of one kind to compare the services on: a line, a known set, or your own file."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
    model_config = ConfigDict(json_schema_extra=one_of("line", "set", "file"))

    name: TestCaseName = Field(description="Value of the CloudWatch dimension TestCase.")
    line: PromptLine | None = Field(
        None,
        description="Line the prompt is filled with; null for llmperf's own text (sonnets).",
    )
    set: Annotated[Text | None, AfterValidator(_known_set)] = Field(
        None,
        description="Prompts of a known set, sent as they are, in turn over the rounds.",
        json_schema_extra=_name_known_sets,
    )
    file: PromptFileName | None = Field(
        None,
        description="Your own prompts, sent as they are: a file beside this one with a JSON "
        "object a line, which has prompt or messages and may have class, max_tokens and tools.",
    )
    classes: Annotated[tuple[Text, ...], DISTINCT] = Field(
        (), description="Only prompts of these classes of the set or file; empty: all."
    )
    limit: Annotated[int, Field(ge=1)] | None = Field(
        None, description="At most so many prompts of the set or file; null: all."
    )
    structure: Structure | None = Field(None, description="Of a line, which needs it.")
    headline: bool = Field(
        False, description="Drawn in the report's latency figures. Only a line can be."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        # Only a line may be null.
        pairs = (("line", "line" in self.model_fields_set), ("set", self.set), ("file", self.file))
        sources = [key for key, value in pairs if value]
        if len(sources) != 1:
            last = sources[-1] if sources else "line"
            raise refused(last, f"must have one of line, set and file; has {len(sources)}")
        if self.is_line and self.structure is None:
            raise refused("structure", "is required with line")
        foreign = ("classes", "limit") if self.is_line else ("structure", "headline")
        for key in foreign:
            if getattr(self, key):
                raise refused(key, f"must be absent with {sources[0]}")
        return self

    @property
    def is_line(self) -> bool:
        """Whether its prompts are filled with a line, as llmperf does."""
        return self.set is None and self.file is None


class LoadPoint(load_points.Loop, Strict):
    """How hard the services are driven: requests at once (closed loop), or a second (open loop)."""

    model_config = ConfigDict(json_schema_extra=one_of("concurrency", "rate"))

    concurrency: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="Requests in flight per service: a closed loop."
    )
    rate: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        None,
        description="Requests a second per service, at the times of a Poisson process: an open "
        "loop, which sends whatever is in flight.",
    )
    requests: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="With concurrency: requests per case, round and service, and at least the "
        "concurrency; null for benchmark.requests.",
    )
    seconds: Annotated[float, Field(gt=0, le=86400)] | None = Field(
        None,
        description="With rate: how long it lasts in each round. It sends rate x seconds requests.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rate is None:
            if self.seconds is not None:
                raise refused("seconds", "must be absent with concurrency")
            return self
        if self.requests is not None:
            raise refused("requests", "must be absent with rate, which sends rate x seconds")
        least = f"at least {1 / self.rate:g}, or nothing is sent"
        if self.seconds is None:
            raise refused("seconds", f"is required with rate: how long it sends, {least}")
        if self.rate * self.seconds < 1:
            raise refused("seconds", f"must be {least}")
        return self


def _or_a_number(schema: dict[str, Any]) -> None:
    """Allows a number for rounds in the JSON Schema. Pydantic sees only the mapping."""
    number = {"type": "integer", "minimum": 1, "maximum": MOST_ROUNDS}
    schema["anyOf"] = [number, {"$ref": schema.pop("$ref")}]


def _few(rounds: Rounds) -> Rounds:
    if rounds.at_most > MOST_ROUNDS:
        raise ValueError(f"must be at most {MOST_ROUNDS}")
    return rounds


class Benchmark(Strict):
    """What is asked of the services, and how hard. Token counts are in llmperf's terms."""

    model_config = ConfigDict(json_schema_extra=one_of("concurrency", "load"))

    image: Image | None = Field(
        None, description="A ready image, with tag or digest; null builds one from spectap/."
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        description="Requests in flight per service: short for a load of this concurrency alone.",
    )
    load: tuple[LoadPoint, ...] | None = Field(
        None, min_length=1, description="The load points that every test case is measured at."
    )
    requests: int | None = Field(
        None,
        ge=1,
        description="Requests per case, round and service, at least as many as are in flight. "
        "Needed unless every load point has its own.",
    )
    rounds: Annotated[Rounds, AfterValidator(_few)] = Field(
        description="Passes over all test cases: a number, or a range and a precision.",
        json_schema_extra=_or_a_number,
    )
    launches: int = Field(
        1,
        ge=1,
        description="How often each service is launched, 1 or at least 3: rounds are split into as "
        "many blocks. With 1, no interval covers what differs between launches.",
    )
    mean_input_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Of a line's prompt, which needs it. Sets and files are sent as they are."
    )
    stddev_input_tokens: Annotated[int, Field(ge=0)] = 0
    mean_output_tokens: int = Field(
        ge=2, description="Also the longest answer to a prompt that names none."
    )
    stddev_output_tokens: Annotated[int, Field(ge=0)] = 0
    timeout_seconds: int = Field(ge=1, description="For one case at one load point in one round.")
    spread_minutes: float = Field(
        0,
        ge=0,
        le=24 * 60,
        description="From the first round to the last, at least: rounds wait, unevenly, so that "
        "what slows a service for minutes is in their scatter. With few test cases 10 minutes for "
        "each round after the first. 0: no pause.",
    )
    endpoint_type: EndpointType = Field(
        EndpointType.CHAT,
        description="chat: /v1/chat/completions, with the model's chat template. completions: "
        "/v1/completions, which takes a prompt's text as it is; the built-in driver sends all.",
    )
    temperature: float = Field(0.0, ge=0, le=2)
    ignore_eos: bool = Field(
        False,
        description="Whether answers go on to their longest length, so that all are equally long: "
        "ignore_eos of vLLM.",
    )
    chat_template_kwargs: Mapping[str, JsonValue] = Field(
        default_factory=dict,
        description="Sent with each request to the model's chat template: {enable_thinking: false} "
        "keeps Qwen3 from thinking, which it does unless told not to.",
    )
    objectives: Objectives | None = Field(
        None, description="Service-level objectives: the 90th percentile must not be above them."
    )
    keep_answers: bool = Field(
        False,
        description="Keep the texts of the answers to sets and files with the results. Otherwise "
        "only digests and checks are kept.",
    )
    test_cases: Annotated[tuple[TestCase, ...], Field(min_length=1, max_length=MOST_CASES)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.concurrency is None and self.load is None:
            raise refused("concurrency", "is required, or load")
        if self.concurrency is not None and self.load is not None:
            raise refused("concurrency", "must be absent with load, whose points have their own")
        if self.requests is None and any(
            p.requests is None and not p.open for p in self.listed_points
        ):
            raise refused("requests", "is required, or at every load point")
        for index, point in enumerate(self.listed_points):
            requests = point.requests or self.requests
            if point.concurrency and requests and requests < point.concurrency:
                field = f"load[{index}].requests" if point.requests else "requests"
                why = f"must be at least {point.concurrency}, the concurrency of a load point"
                raise refused(field, why)
        for key, named in (("load", self.listed_points), ("test_cases", self.test_cases)):
            names = [item.name for item in named]
            for index, name in enumerate(names):
                if name in names[:index]:
                    raise refused(f"{key}[{index}]", f"{name} is duplicated; list each once")
        if self.launches > 1:
            least = load_points.FEWEST_ROUNDS
            if self.launches < least:
                raise refused("launches", f"must be 1 or at least {least}")
            if not self.rounds.fixed or self.rounds.at_most % self.launches:
                raise refused("launches", "needs rounds that are a multiple of it")
        if self.mean_input_tokens is None and any(case.is_line for case in self.test_cases):
            raise refused("mean_input_tokens", "is required with a line")
        return self

    @property
    def listed_points(self) -> tuple[LoadPoint, ...]:
        return self.load or (LoadPoint(concurrency=self.concurrency),)

    @property
    def points(self) -> tuple[load_points.LoadPoint, ...]:
        return tuple(
            load_points.LoadPoint(
                concurrency=point.concurrency,
                rate=point.rate,
                requests=max(1, round(point.rate * (point.seconds or 0)))
                if point.rate
                else point.requests or self.requests,
            )
            for point in self.listed_points
        )
