"""What an experiment file says about its measurement: test cases, load points and objectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, JsonValue

from experiment.strict import Strict
from experiment.text_types import Image, PromptFileName, PromptLine, TestCaseName, Text
from spectap import load_points
from spectap.config import Structure
from spectap.load import sets
from spectap.rounds import Rounds

MOST_ROUNDS: Final = 100


def one_of(*keys: str) -> Callable[[dict[str, Any]], None]:
    """Has the JSON Schema say what a rule refuses: none of these keys, or several."""
    return lambda schema: schema.update(oneOf=[{"required": [key]} for key in keys])


def _known_set(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"enum": [*sets.KNOWN], "type": "string"}, {"type": "null"}]


class TestCase(Strict):
    """Prompts of one kind to compare the services on: a line, a known set, or your own file."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
    model_config = ConfigDict(json_schema_extra=one_of("line", "set", "file"))

    name: TestCaseName = Field(description="Value of the CloudWatch dimension TestCase.")
    line: PromptLine | None = Field(
        None,
        description="Line the prompt is filled with; null for llmperf's own text (sonnets).",
    )
    set: Text | None = Field(
        None,
        description="Prompts of a known set, sent as they are, in turn over the rounds.",
        json_schema_extra=_known_set,
    )
    file: PromptFileName | None = Field(
        None,
        description="Your own prompts, sent as they are: a file beside this one with a JSON "
        "object a line, which has prompt or messages and may have class, max_tokens and tools.",
    )
    classes: tuple[Text, ...] = Field(
        (), description="Only prompts of these classes of the set or file; empty: all."
    )
    limit: Annotated[int, Field(ge=1)] | None = Field(
        None, description="At most so many prompts of the set or file; null: all."
    )
    structure: Structure | None = Field(None, description="Of a line, which needs it.")
    headline: bool = Field(
        False, description="Drawn in the report's latency figures. Only a line can be."
    )

    @property
    def sources(self) -> tuple[str, ...]:
        """Which of ``line``, ``set`` and ``file`` the test case has. Only a line may be null."""
        given = (("set", self.set), ("file", self.file))
        line = ("line",) if "line" in self.model_fields_set else ()
        return (*line, *(key for key, value in given if value is not None))

    @property
    def is_line(self) -> bool:
        """Whether its prompt is filled with a line, as llmperf does."""
        return self.set is None and self.file is None


class LoadPoint(Strict):
    """How hard the services are driven: requests at once (closed loop), or a second (open loop)."""

    model_config = ConfigDict(json_schema_extra=one_of("concurrency", "rate"))

    concurrency: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="Requests in flight per service: a closed loop."
    )
    requests: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="With concurrency: requests per case, round and service, and at least the "
        "concurrency; null for benchmark.requests.",
    )
    rate: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        None,
        description="Requests a second per service, at the times of a Poisson process: an open "
        "loop, which sends whatever is in flight.",
    )
    seconds: Annotated[float, Field(gt=0, le=86400)] | None = Field(
        None,
        description="With rate: how long it lasts in each round. It sends rate x seconds requests.",
    )


class Objectives(Strict):
    """What a service promises its users. A request within all of them counts as goodput."""

    ttft_p90_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Time to the first token, milliseconds."
    )
    tpot_p90_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Time per output token, milliseconds."
    )
    e2e_p90_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Time of the whole answer, milliseconds."
    )


def _or_a_number(schema: dict[str, Any]) -> None:
    """Pydantic takes rounds for a mapping. It does not see that a number stands for one."""
    number = {"type": "integer", "minimum": 1, "maximum": MOST_ROUNDS}
    schema["anyOf"] = [number, {"$ref": schema.pop("$ref")}]


class Benchmark(Strict):
    """What is asked of the services, and how hard. Token counts are in llmperf's terms."""

    model_config = ConfigDict(json_schema_extra=one_of("concurrency", "load"))

    image: Image | None = Field(
        None, description="A ready image, with tag or digest; null builds one from spectap/."
    )
    concurrency: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Requests in flight per service: short for a load of this concurrency alone.",
    )
    load: Annotated[tuple[LoadPoint, ...], Field(min_length=1)] | None = Field(
        None, description="The load points that every test case is measured at."
    )
    requests: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Requests per case, round and service, at least as many as are in flight. "
        "Needed unless every load point has its own.",
    )
    rounds: Rounds = Field(
        description="Passes over all test cases: a number, or a range and a precision.",
        json_schema_extra=_or_a_number,
    )
    mean_input_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Of a line's prompt, which needs it. Sets and files are sent as they are."
    )
    stddev_input_tokens: Annotated[int, Field(ge=0)] = 0
    mean_output_tokens: Annotated[
        int, Field(ge=2, description="Also the longest answer to a prompt that names none.")
    ]
    stddev_output_tokens: Annotated[int, Field(ge=0)] = 0
    timeout_seconds: Annotated[
        int, Field(ge=1, description="For one case at one load point in one round.")
    ]
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
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
    test_cases: Annotated[tuple[TestCase, ...], Field(min_length=1, max_length=50)]

    @property
    def points(self) -> tuple[load_points.LoadPoint, ...]:
        """The load points, as the benchmark takes them. ``rules`` refuses what has none."""
        given = self.load or (LoadPoint(concurrency=self.concurrency),)
        return tuple(map(self._point, given))

    def _point(self, given: LoadPoint) -> load_points.LoadPoint:
        if given.rate is not None:
            requests = max(1, round(given.rate * (given.seconds or 0)))
            return load_points.LoadPoint(rate=given.rate, requests=requests)
        concurrency = given.concurrency or 1
        # Fewer than a full wave would not be that concurrency.
        requests = max(given.requests or self.requests or 1, concurrency)
        return load_points.LoadPoint(concurrency=concurrency, requests=requests)
