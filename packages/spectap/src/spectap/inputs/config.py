"""The input of a run: one model, which the charts write and the benchmark reads."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from pydantic import ConfigDict, Field, ValidationError, model_validator

from spectap.errors import ConfigError, problems
from spectap.inputs.load_points import Load, LoadPoint, Model, optional, repeated
from spectap.inputs.published import Publication

NAME: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
"""Names of variants and test cases, which are in folders, object keys and CloudWatch dimensions."""

Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=NAME.pattern)]
Positive = Annotated[float, Field(gt=0)]


class Structure(StrEnum):
    """Whether a prompt's continuation is predictable."""

    STRUCTURED = "structured"
    OPEN_ENDED = "open-ended"


class Variant(Model):
    """One way of decoding under test, served at an endpoint or run as a job. None: not known."""

    name: Name
    endpoint: Annotated[str, Field(pattern=r"^https?://[^/?#@]+(/[^?#]*)?$")] | None = Field(
        None,
        description="Base URL, /v1 included, without a user or a password, which would be in "
        "every result; None for a job, which serves nothing.",
    )
    baseline: str | None = Field(
        None, description="The variant it is compared with; None for a baseline."
    )
    model: Text | None = optional(
        None, "Name it serves the target under; None for the name that the others have."
    )
    runtime: Text | None = Field(None, description="Name of the image generation.")
    mode: Text | None = Field(None, description="Speculation mode; None for a baseline.")
    draft: Text | None = Field(None, description="Draft model and revision.")
    window: Annotated[int, Field(ge=1, le=10**4)] | None = Field(
        None, description="num_speculative_tokens; None for a baseline."
    )
    drafts_per_step: Annotated[int, Field(ge=1, le=10**4)] | None = Field(
        None,
        description="Drafts that a step verifies; it yields at most one token more. With NxDI one "
        "less than the window.",
    )
    batch: Annotated[int, Field(ge=1, le=10**5)] | None = Field(
        None, description="Sequences decoded together."
    )
    artifact: Text | None = Field(None, description="Key of the compiled artifact.")
    without: Text | None = optional(
        None,
        "What it is served without, though its runtime has it: async scheduling, "
        "where a variant speculates. A baseline without it is shown, and not compared.",
    )
    served: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")] | None = optional(
        None, "Where it is isolated: digest of its artifact and of how it is served."
    )

    @property
    def folder(self) -> str:
        """The folder of an isolated variant. Its name changes with how the variant is served."""
        return f"{self.name}-{self.served}" if self.served else self.name


class PromptSource(Model):
    """The source of a test case's prompts: either a known set or a file."""

    set: Text | None = Field(
        None, description="A set that spectap.load.sets knows, such as humaneval."
    )
    file: Text | None = Field(
        None,
        description="The user's own, beside the configuration or in prompts_bucket; see "
        "spectap.inputs.prompt.",
    )
    digest: Text | None = Field(None, description="SHA-256 of the file, in hexadecimal digits.")
    classes: tuple[Text, ...] = Field((), description="Only prompts of these classes; empty: all.")
    limit: Annotated[int, Field(ge=1)] | None = Field(
        None, description="At most so many, drawn by a fixed seed; None: all."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> PromptSource:
        if (self.set is None) == (self.file is None):
            raise ValueError("needs either set or file")
        return self

    def __str__(self) -> str:
        some = f" ({', '.join(self.classes)})" if self.classes else ""
        most = f", {self.limit} of them" if self.limit else ""
        return f"{self.set or self.file}{some}{most}"


class TestCase(Model):
    """Prompts of one kind, on which variants are compared."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    name: Name
    line: Text | None = Field(
        None,
        description="The line that the prompt repeats; None for llmperf's text, and with prompts.",
    )
    structure: Structure | None = Field(
        None, description="None with prompts: these have classes of their own."
    )
    headline: bool = Field(False, description="Drawn in the report's latency figures.")
    prompts: PromptSource | None = optional(
        None, "Prompts that are sent as they are, in turn over the rounds."
    )

    @property
    def source(self) -> str:
        if self.prompts:
            return str(self.prompts)
        return "llmperf's own text (Shakespeare's sonnets)" if self.line is None else self.line


class Objectives(Model):
    """Latencies promised to users. A request within all of them counts as goodput."""

    model_config = ConfigDict(strict=True)

    ttft_p90_ms: Positive | None = Field(None, description="Time to the first token, milliseconds.")
    tpot_p90_ms: Positive | None = Field(None, description="Time per output token, milliseconds.")
    e2e_p90_ms: Positive | None = Field(None, description="Time of the whole answer, milliseconds.")

    @model_validator(mode="after")
    def _consistent(self) -> Objectives:
        if not self.model_dump(exclude_none=True):
            raise ValueError(f"must have {' or '.join(type(self).model_fields)}")
        if (self.e2e_p90_ms or math.inf) <= (self.ttft_p90_ms or 0):
            raise ValueError(
                f"e2e_p90_ms must be more than ttft_p90_ms, {self.ttft_p90_ms:g}: no answer ends "
                "before its first token"
            )
        return self


class Cost(Model):
    """The price of the hardware."""

    usd_per_hour: Annotated[float, Field(gt=0, le=1e6, description="One node.")]
    price_of: str = Field(
        "", description="Which purchase option in which region the price is of; empty: unknown."
    )
    as_of: Text = Field(description="When the price was read.")
    share: Annotated[float, Field(gt=0, le=1, description="The part of a node one variant has.")]
    denominator: Text = Field(description="That part in words.")

    @property
    def price_source(self) -> str:
        return f"as of {self.as_of}" + (f", {self.price_of}" if self.price_of else "")

    @property
    def usd_per_million_seconds(self) -> float:
        """The price of one variant's part of a node for a million seconds. Divided by tokens a
        second, it is USD per million tokens."""
        return self.usd_per_hour * self.share / 3600 * 1_000_000


class Config(Model):
    """One run's input."""

    experiment: Text
    model: Text = Field(description="Name the endpoints serve the target under.")
    variants: tuple[Variant, ...] = Field(
        description="In the order they are shown in; the first is a baseline."
    )
    region: Text | None = Field(None, description="AWS region; None keeps everything here.")
    bucket: Text | None = Field(None, description="Takes the results; None keeps them here.")
    prompts_bucket: Text | None = optional(
        None,
        "Has the test cases' files, each under its digest; None if they lie beside "
        "the configuration.",
    )
    lines: Text | None = optional(
        None,
        "SHA-256 of the file in prompts_bucket that has the test cases' lines by their names; None "
        "if they are here.",
    )
    load: Load
    test_cases: Annotated[tuple[TestCase, ...], Field(min_length=1)]
    objectives: Objectives | None = Field(None, description="None where there are none.")
    keep_answers: bool = Field(
        False, description="Whether the texts of answers are kept, and not only their digests."
    )
    isolated: bool = optional(
        False,
        "Whether each variant is measured by itself, at a time and on devices of its own, as in a "
        "sweep.",
    )
    alternate: bool = optional(
        False,
        "Whether the variants of a turn are loaded one after another, as on one GPU, and not "
        "beside each other.",
    )
    machines: int = optional(
        1, "Machines that servers measured beside each other are spread over.", ge=1, le=10**5
    )
    api_key_secret: Text | None = optional(
        None,
        "Name of the secret with the endpoints' key; None where they ask for none, or "
        "for that of OPENAI_API_KEY.",
    )
    stopper: Text | None = optional(
        None,
        "ARN of the state machine that ends the nodes once a run's results are in the "
        "bucket; None where nothing is to end them.",
    )
    cost: Cost | None = Field(None, description="None where no price is known.")
    settings: Mapping[str, str] = Field(
        default_factory=dict, description="What else the report prints about the experiment."
    )
    published: tuple[Publication, ...] = optional(
        (), "What others have published, shown beside what is measured."
    )
    stand_in: Text | None = Field(
        None, description="What serves in place of Trainium, if anything does."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        for field in ("variants", "test_cases"):
            if names := repeated(item.name for item in getattr(self, field)):
                raise ValueError(f"{field}: {', '.join(names)} is duplicated")
        baselines = {variant.name for variant in self.variants if variant.baseline is None}
        for variant in self.variants:
            if variant.baseline is not None and variant.baseline not in baselines:
                raise ValueError(f"variants: {variant.name}: {variant.baseline} is not a baseline")
        if not self.variants or self.variants[0].baseline is not None:
            raise ValueError("variants: the first must be a baseline")
        if len(self.endpoints) not in (0, len(self.variants)):
            raise ValueError("variants: all or none must have an endpoint")
        if self.isolated and self.load.launches > 1:
            raise ValueError("load: launches: must be 1 where variants are isolated")
        if (self.bucket is None) != (self.region is None):
            raise ValueError("bucket and region: both or neither")
        sources = [case.prompts for case in self.test_cases if case.prompts is not None]
        if self.prompts_bucket and any(source.file and not source.digest for source in sources):
            raise ValueError("prompts_bucket: each file in it needs its digest")
        if self.lines and not self.prompts_bucket:
            raise ValueError("lines: needs prompts_bucket")
        return self

    @property
    def wave(self) -> LoadPoint:
        """The load of warm-ups and controls: a wave of the widest closed loop, or a full batch."""
        widest = max(
            (point.concurrency for point in self.load.points if point.concurrency),
            default=max(variant.batch or 1 for variant in self.variants),
        )
        return LoadPoint(concurrency=widest, requests=widest)

    def overloads(self, point: LoadPoint) -> bool:
        """Whether a variant may fall behind at this load. Failed requests are then a result."""
        batches = (variant.batch for variant in self.variants if variant.batch)
        return point.concurrency is None or any(point.concurrency > batch for batch in batches)

    def needed(self, point: LoadPoint) -> int:
        """The number of requests of a turn that must succeed, or the turn is measured again.

        Half of them are enough where a variant may fall behind: failures then show the load's
        effect.
        """
        return math.ceil(point.requests / 2) if self.overloads(point) else point.requests

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(variant.name for variant in self.variants)

    @property
    def models(self) -> dict[str, str]:
        """The names under which the variants serve the target, by variant."""
        return {variant.name: variant.model or self.model for variant in self.variants}

    @property
    def offline(self) -> bool:
        """Whether the variants run as jobs, which have no endpoint."""
        return not self.endpoints

    @property
    def endpoints(self) -> dict[str, str]:
        """Base URLs by variant, in order; empty for jobs."""
        return {v.name: v.endpoint for v in self.variants if v.endpoint is not None}


def read(path: Path) -> Config:
    """Reads a configuration. Raises ConfigError, whose text is a line for each error."""
    try:
        return Config.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        absent = {problem["loc"][0] for problem in error.errors() if problem["type"] == "missing"}
        if {"experiment", "model", "load", "test_cases"} <= absent:
            raise ConfigError(f"{path}: is not the configuration of a run") from None
        raise ConfigError("\n".join(f"{path}: {line}" for line in problems(error))) from None


def without_lines(config: Config) -> tuple[Config, bytes]:
    """Takes the lines out of a configuration: returns it with their digest, and a file of them.

    A line may have any length, and a ConfigMap has a limit. Without lines, the file is empty and
    there is no digest.
    """
    lines = {case.name: case.line for case in config.test_cases if case.line is not None}
    if not lines:
        return config, b""
    content = json.dumps(lines).encode()
    cases = tuple(case.model_copy(update={"line": None}) for case in config.test_cases)
    changes = {"test_cases": cases, "lines": hashlib.sha256(content).hexdigest()}
    return config.model_copy(update=changes), content


def with_lines(config: Config, content: bytes) -> Config:
    """Undoes ``without_lines``. Raises ConfigError for a file of another digest."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != config.lines:
        raise ConfigError(f"lines: were changed: their SHA-256 is {digest} and not {config.lines}")
    lines = json.loads(content)
    cases = tuple(
        case.model_copy(update={"line": lines.get(case.name)}) for case in config.test_cases
    )
    return config.model_copy(update={"test_cases": cases, "lines": None})


def differences(begun: Config, config: Config) -> list[str]:
    """The fields that differ and change what is measured."""
    ignored = {"stopper", "api_key_secret", "published"}
    if begun.isolated:  # a price may change before the last variant is measured
        ignored |= {"cost", "settings", "objectives"}
    fields = [name for name in Config.model_fields if name not in ignored]
    return [name for name in fields if getattr(begun, name) != getattr(config, name)]


def dump(config: Config) -> str:
    """The configuration as JSON, in ASCII: CloudFormation shows other characters as ``?``."""
    return config.model_dump_json(indent=2, ensure_ascii=True) + "\n"
