"""The experiment file, typed. Rules that span several fields stand in ``rules``."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PrivateAttr
from pydantic_core import PydanticCustomError

from benchmark import config
from benchmark.config import Structure
from benchmark.rounds import Rounds
from experiment.hardware import INSTANCE_TYPES, InstanceType
from experiment.known_models import KNOWN_MODELS, Architecture
from experiment.known_sets import KnownSet
from experiment.prompt_files import PromptFile
from experiment.runtimes import RUNTIMES, Mode, Runtime
from experiment.text_types import (
    Cidr,
    Commit,
    Email,
    Image,
    ModelId,
    Name,
    PromptFileName,
    PromptLine,
    Region,
    ReservationId,
    TestCaseName,
    Text,
    VariantName,
    Zone,
)

MOST_ROUNDS: Final = 100

Batch = Annotated[int, Field(ge=1, le=256)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Aws(_Model):
    """Where the experiment runs."""

    region: Region = Field(description="AWS region that offers the instance type.")
    availability_zones: Annotated[
        tuple[Zone, ...],
        Field(
            min_length=2,
            max_length=3,
            description="Zones of the VPC. The EKS control plane needs two; "
            "one of them must be capacity.availability_zone.",
        ),
    ]
    api_access: tuple[Cidr, ...] = Field(
        (),
        description="CIDR blocks that may reach the Kubernetes API. Empty: from the VPC only.",
    )


class Purchase(StrEnum):
    """How the capacity is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    CAPACITY_BLOCK = "capacity-block"

    @property
    def reserved(self) -> bool:
        """Whether this option needs the identifier of something bought beforehand."""
        return self in (Purchase.RESERVATION, Purchase.CAPACITY_BLOCK)


class Price(_Model):
    """What one node costs. It is one purchase option's and one region's, and it changes."""

    usd_per_hour: Annotated[float, Field(gt=0, description="One node, USD per hour.")]
    purchase: Purchase = Field(
        description="The purchase option whose price this is. Another than capacity.purchase is "
        "named wherever a cost is shown."
    )
    region: Region = Field(
        description="The region whose price this is. Another than aws.region is named wherever a "
        "cost is shown."
    )
    as_of: datetime.date = Field(description="When this price was read.")
    source: Text = Field(description="Where this price was read.")


class Capacity(_Model):
    """The Trainium nodes and how they are paid for."""

    instance_type: Literal["trn2.48xlarge"] = Field(description="EC2 instance type.")
    nodes: Annotated[int, Field(ge=1, le=8, description="Nodes in the group.")]
    availability_zone: Zone = Field(description="The zone that has the capacity.")
    purchase: Purchase = Field(
        description="on-demand, spot, reservation (an on-demand capacity reservation) or "
        "capacity-block (prepaid, in one zone)."
    )
    reservation_id: ReservationId | None = Field(
        None, description="Required with reservation and capacity-block."
    )
    price: Price

    @property
    def instance(self) -> InstanceType:
        """The catalogue entry of ``instance_type``."""
        return INSTANCE_TYPES[self.instance_type]


class Model(_Model):
    """A checkpoint on the Hugging Face Hub, at one commit."""

    id: ModelId = Field(description="organisation/name")
    revision: Commit = Field(description="Commit. A branch name would move.")
    architecture: Architecture | None = Field(
        None, description="Required for a model this project does not know."
    )

    @property
    def known(self) -> Architecture:
        """The architecture, from the file or from the catalogue.

        Raises KeyError for an unknown model without one; ``rules`` refuses such a file.
        """
        return self.architecture or KNOWN_MODELS[self.id]


class Models(_Model):
    """The target and its draft. Both must share one vocabulary."""

    target: Model = Field(description="The model that is served.")
    draft: Model | None = Field(
        None, description="The model that proposes tokens for it; most modes need one."
    )


class Speculation(_Model):
    """How one variant speculates."""

    name: VariantName = Field(
        "SD",
        description="Names the variant, in CloudWatch's dimension Variant and in Kubernetes.",
    )
    mode: Mode = Field(description="Speculation mode; what a runtime can serve differs.")
    num_speculative_tokens: Annotated[
        int, Field(ge=1, le=15, description="Tokens in the speculation window.")
    ]
    draft: Model | None = Field(None, description="Another draft than models.draft.")
    batch: Batch | None = Field(
        None,
        description="Another batch than serving.batch. Each batch has a baseline of its own.",
    )


def _listed(value: Any) -> Any:
    """A tuple: of one for a mapping, of the items of a list. ``Document.locate`` undoes this."""
    if isinstance(value, Mapping):
        return (value,)
    if isinstance(value, list):
        return tuple(value)
    raise PydanticCustomError("mapping_or_list", "must be a mapping, or a list of mappings")


_Several = Annotated[tuple[Speculation, ...], Field(min_length=1)]
Speculations = Annotated[
    _Several,
    BeforeValidator(_listed, json_schema_input_type=Speculation | _Several),
    Field(description="One variant, or a list of them, each with a name."),
]


class Serving(_Model):
    """What each service gets. All get the same."""

    devices: Literal[1, 4, 8, 16] = Field(
        description="Neuron devices of each service, out of one connected device group."
    )
    logical_core_size: Literal[1, 2] = Field(
        description="Physical NeuronCores in one logical core (LNC)."
    )
    tensor_parallel: Literal[1, 2, 4, 8, 16, 32, 64] = Field(
        description="Must be devices x cores per device / logical_core_size."
    )
    batch: Batch = Field(description="Sequences decoded together.")
    length: Annotated[
        int,
        Field(
            ge=128,
            description="Tokens of prompt and answer together that are compiled for; "
            "the services take a window less.",
        ),
    ]


def _one_of(*keys: str) -> Callable[[dict[str, Any]], None]:
    """Has the JSON Schema say what a rule refuses: none of these keys, or several."""
    return lambda schema: schema.update(oneOf=[{"required": [key]} for key in keys])


class TestCase(_Model):
    """Prompts of one kind to compare the services on: a line, a known set, or your own file."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
    model_config = ConfigDict(json_schema_extra=_one_of("line", "set", "file"))

    name: TestCaseName = Field(description="Value of the CloudWatch dimension TestCase.")
    line: PromptLine | None = Field(
        None,
        description="Line the prompt is filled with; null for llmperf's own text (sonnets).",
    )
    set: KnownSet | None = Field(
        None,
        description="Prompts of a known set, sent as they are; in turn over the rounds.",
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
        """Which of the keys ``line``, ``set`` and ``file`` the test case has. A line may be null;
        the others are then as good as absent."""
        given = (("set", self.set), ("file", self.file))
        line = ("line",) if "line" in self.model_fields_set else ()
        return (*line, *(key for key, value in given if value is not None))

    @property
    def is_line(self) -> bool:
        """Whether its prompt is filled with a line, as llmperf does."""
        return self.set is None and self.file is None


class LoadPoint(_Model):
    """How hard the services are driven: requests at once (closed loop), or a second (open loop)."""

    model_config = ConfigDict(json_schema_extra=_one_of("concurrency", "rate"))

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


class Objectives(_Model):
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


class Benchmark(_Model):
    """What is asked of the services, and how hard. Token counts are in llmperf's terms."""

    model_config = ConfigDict(json_schema_extra=_one_of("concurrency", "load"))

    image: Image | None = Field(
        None, description="A ready image, with tag or digest; null builds one from benchmark/."
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
    mean_input_tokens: Annotated[
        int, Field(ge=1, description="Of a line's prompt. Prompts of sets and files are as long.")
    ]
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
    def points(self) -> tuple[config.LoadPoint, ...]:
        """The load points, as the benchmark takes them. ``rules`` refuses what has none."""
        given = self.load or (LoadPoint(concurrency=self.concurrency),)
        return tuple(map(self._point, given))

    def _point(self, given: LoadPoint) -> config.LoadPoint:
        if given.rate is not None:
            requests = max(1, round(given.rate * (given.seconds or 0)))
            return config.LoadPoint(rate=given.rate, requests=requests)
        concurrency = given.concurrency or 1
        # Fewer than a full wave would not be that concurrency.
        requests = max(given.requests or self.requests or 1, concurrency)
        return config.LoadPoint(concurrency=concurrency, requests=requests)


class Quality(_Model):
    """The lm-eval job: does speculation change the answers' correctness?"""

    limit: Annotated[int, Field(ge=1, le=1319, description="GSM8K questions (1319 in all).")]


class Alerts(_Model):
    """Who is told, and when."""

    emails: tuple[Email, ...] = Field((), description="Subscribers of the alarm topic.")
    idle_minutes: Annotated[
        int,
        Field(ge=15, le=1440, multiple_of=5, description="A node idle this long raises an alarm."),
    ]
    minimum_speedup: Annotated[
        float,
        Field(
            gt=0,
            description="Below this on the structured headline case, or where there is none on the "
            "first test case, at the first load point, speculation lost its benefit.",
        ),
    ]
    budget_usd_per_month: Annotated[float, Field(gt=0)]


class Experiment(_Model):
    """One comparison of vLLM services on Trainium: baselines, and variants that speculate."""

    name: Name = Field(description="Names and tags everything the experiment creates.")
    aws: Aws
    capacity: Capacity
    runtime: str = Field(
        description="Image generation that serves.",
        json_schema_extra=lambda schema: schema.update(enum=[*RUNTIMES]),
    )
    models: Models
    speculation: Speculations
    serving: Serving
    benchmark: Benchmark
    quality: Quality
    alerts: Alerts
    _prompt_files: Mapping[str, PromptFile] = PrivateAttr(default_factory=dict)

    @property
    def prompt_files(self) -> Mapping[str, PromptFile]:
        """The user's own prompts, by the name of their file."""
        return self._prompt_files

    def with_prompt_files(self, files: Mapping[str, PromptFile]) -> Experiment:
        """The same experiment, with the content of the files that its test cases name."""
        own = self.model_copy()
        own._prompt_files = files
        return own

    @property
    def price_of(self) -> str:
        """Which price the costs use, e.g. ``capacity-block in us-east-2``.

        If the node is bought otherwise or elsewhere, it adds that no such price is given.
        """
        price, bought = self.capacity.price, f"{self.capacity.purchase} in {self.aws.region}"
        missing = "" if self.priced_as_bought else f"; no price of {bought} is given"
        return f"{price.purchase} in {price.region}{missing}"

    @property
    def priced_as_bought(self) -> bool:
        """Whether the price is that of the purchase option and the region."""
        price = self.capacity.price
        return (price.purchase, price.region) == (self.capacity.purchase, self.aws.region)

    @property
    def served_length(self) -> int:
        """Tokens of prompt and answer together that each service takes.

        A window less than compiled: NxDI looks a window ahead of the last token, and an input that
        leaves no room for it ends the engine (v0.6.10598, ``models/model_wrapper.py``,
        ``get_target_bucket``). The largest window decides, so that all take the same requests.
        """
        return self.serving.length - self.largest_window

    @property
    def largest_window(self) -> int:
        """``num_speculative_tokens`` of the variant with most."""
        return max(speculation.num_speculative_tokens for speculation in self.speculation)

    @property
    def concurrency_without_a_queue(self) -> int:
        """The largest concurrency of the load that every batch takes at once; else the batch."""
        batch = min(speculation.batch or self.serving.batch for speculation in self.speculation)
        measured = (point.concurrency for point in self.benchmark.points)
        return max((c for c in measured if c is not None and c <= batch), default=batch)

    @property
    def serving_runtime(self) -> Runtime:
        """The catalogue entry of ``runtime``."""
        return RUNTIMES[self.runtime]
