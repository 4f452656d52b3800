"""The experiment file, typed. Rules between fields are in ``rules``."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PrivateAttr,
    model_validator,
)
from pydantic_core import core_schema

from experiment.aws import Aws
from experiment.fields import (
    DISTINCT,
    Email,
    Name,
    Origin,
    Ref,
    Region,
    Repository,
    ReservationId,
    Strict,
    Text,
    Zone,
    refused,
)
from experiment.hardware import (
    INSTANCE_TYPES,
    MOST_TRAINIUM_NODES,
    CompileInstance,
    InstanceType,
    compile_instance,
)
from experiment.known_models import Models
from experiment.measurement import Benchmark, PromptFile, TestCase, one_of
from experiment.runtimes import RUNTIMES, Preparation, Runtime, Workload
from experiment.speculation import Serving, Speculation, Speculations, Sweep, YamlPaths, with_paths
from spectap.inputs.published import Publication
from spectap.load import sets
from spectap.load.sets import KnownSet
from spectap.names import name_prefix


class Purchase(StrEnum):
    """The way in which capacity is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    CAPACITY_BLOCK = "capacity-block"

    @property
    def reserved(self) -> bool:
        """Whether it is bought beforehand and has an identifier."""
        return self in (Purchase.RESERVATION, Purchase.CAPACITY_BLOCK)


def _past(day: datetime.date) -> datetime.date:
    # A day more: elsewhere it may be tomorrow already.
    if day > datetime.date.today() + datetime.timedelta(days=1):
        raise ValueError("is in the future; must be the day the price was read")
    return day


TrainiumType = Annotated[
    str, GetPydanticSchema(lambda *_: core_schema.literal_schema([*INSTANCE_TYPES]))
]


class Price(Strict):
    """The price of one node, in one purchase option and one region. It changes."""

    instance_type: TrainiumType = Field(description="Must be that of capacity.")
    usd_per_hour: float = Field(gt=0, description="One node, USD per hour.")
    purchase: Purchase = Field(
        description="The purchase option whose price this is. Another than capacity.purchase is "
        "named wherever a cost is shown."
    )
    region: Region = Field(
        description="The region whose price this is. Another than aws.region is named wherever a "
        "cost is shown."
    )
    as_of: Annotated[datetime.date, AfterValidator(_past)] = Field(
        description="When this price was read."
    )
    source: Text = Field(description="Where this price was read.")


class NodeFate(StrEnum):
    """Whether nodes that are no longer needed are stopped, or kept for somebody to look at."""

    STOP = "stop"
    KEEP = "keep"


class Capacity(Strict):
    """The Trainium nodes and how they are paid for."""

    instance_type: TrainiumType = Field(
        description="EC2 instance type. Devices: "
        + ", ".join(f"{each.devices} of a {each.name}" for each in INSTANCE_TYPES.values())
        + "."
    )
    nodes: int = Field(ge=1, le=MOST_TRAINIUM_NODES, description="Nodes in the group.")
    availability_zone: Zone = Field(description="The zone that has the capacity.")
    purchase: Purchase = Field(
        description="on-demand, spot, reservation (an on-demand capacity reservation) or "
        "capacity-block (prepaid, in one zone)."
    )
    reservation_id: ReservationId | None = Field(
        None, description="Required with reservation and capacity-block."
    )
    price: Price
    max_hours: float | None = Field(
        None,
        gt=0,
        le=24 * 182,
        description="Hours after which a schedule scales the Trainium nodes to 0, whatever runs on "
        "them: from when they are ready, and while capacity is awaited from when they were asked "
        "for. Default: three times what make cost estimates for them.",
    )
    after_run: NodeFate | None = Field(
        None,
        description="stop: the Trainium nodes are scaled to 0 once the results are in the bucket. "
        "keep: they stay. Default: stop, but keep what is reserved, which is paid for either way.",
    )
    after_failure: NodeFate = Field(
        NodeFate.STOP,
        description="stop: after a stage of make experiment has failed, all nodes are scaled to 0 "
        "once the pods' logs are in the bucket. keep: they stay if the command has a terminal.",
    )

    @model_validator(mode="after")
    def _bought_beforehand(self) -> Self:
        if self.purchase.reserved is (self.reservation_id is None):
            required = f"is required with purchase {self.purchase}"
            foreign = "is allowed only with purchase reservation or capacity-block"
            raise refused("reservation_id", required if self.purchase.reserved else foreign)
        return self

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.price.instance_type != self.instance_type:
            raise refused("price.instance_type", f"must be {self.instance_type}; give its price")
        return self

    @property
    def stops_after_run(self) -> bool:
        default = NodeFate.KEEP if self.purchase.reserved else NodeFate.STOP
        return (self.after_run or default) is NodeFate.STOP

    @property
    def instance(self) -> InstanceType:
        return INSTANCE_TYPES[self.instance_type]


class CompileNode(StrEnum):
    """Where compile Jobs run."""

    CPU = "cpu"
    TRAINIUM = "trainium"


class Compiling(Strict):
    """Where graphs are compiled, for runtimes that compile by a Job."""

    node: CompileNode = Field(
        CompileNode.CPU,
        description="cpu: on CPU nodes that stand only for that long. trainium: on the Trainium "
        "nodes, which are paid for meanwhile.",
    )


class Alerts(Strict):
    """Who is told, and when."""

    emails: Annotated[tuple[Email, ...], DISTINCT] = Field(
        (), description="Subscribers of the alarm topic."
    )
    idle_minutes: int = Field(
        ge=15, le=1440, multiple_of=5, description="A node idle this long raises an alarm."
    )
    minimum_speedup: float = Field(
        gt=0,
        description="Below this on the structured headline case, or where there is none on the "
        "first test case, at the first load point, speculation lost its benefit.",
    )
    budget_usd_per_month: float = Field(gt=0)


class Delivery(Strict):
    """Roles that workflows of one repository may assume."""

    repository: Repository = Field(
        description="The repository on github.com as its tokens name it: OWNER/NAME, or "
        "OWNER@ID/NAME@ID if it was made after July 15, 2026 or has opted in."
    )
    branch: Ref = Field("main", description="The only branch whose workflows may deploy.")
    environment: Ref = Field(
        "aws", description="The GitHub environment that deploys wait for. Protect it."
    )
    provider: Origin = Field(
        Origin.MAKE,
        description="Make the account's OIDC provider of GitHub, or use the one that is there.",
    )


class Experiment(Strict):
    """One comparison of vLLM servers on Trainium: baselines, and variants that speculate."""

    model_config = ConfigDict(json_schema_extra=one_of("speculation", "sweep"))

    name: Name = Field(description="Names and tags everything the experiment creates.")
    aws: Aws
    capacity: Capacity
    compiling: Compiling = Compiling()
    runtime: str = Field(
        description="Image generation that serves.",
        json_schema_extra=lambda schema: schema.update(enum=[*RUNTIMES]),
    )
    models: Models
    speculation: Speculations | None = None
    sweep: Sweep | None = Field(
        None,
        description="In place of speculation: drafts, windows and batches, of which each "
        "combination is a variant that is measured by itself.",
    )
    serving: Serving
    benchmark: Benchmark
    published: tuple[Publication, ...] = Field(
        (), description="What others have published: the report has it beside what is measured."
    )
    alerts: Alerts
    delivery: Delivery | None = Field(
        None, description="Roles for workflows on GitHub, which make delivery creates."
    )
    _prompt_files: Mapping[str, PromptFile] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _a_node_has_the_devices(self) -> Self:
        """Checks this before all rules, which count the services that fit on a node."""
        instance = self.capacity.instance
        if self.serving.devices > instance.devices:
            most = f"must be at most {instance.devices}, all devices of a {instance.name}"
            raise refused("serving.devices", most)
        return self

    @property
    def speculations(self) -> tuple[Speculation, ...]:
        """The variants that speculate, listed or swept. ``rules`` refuses to have none."""
        return tuple(speculation for speculation, _ in self.speculations_with_paths)

    @property
    def speculations_with_paths(self) -> tuple[tuple[Speculation, YamlPaths], ...]:
        """The speculations, each with the fields of the file that make it."""
        return tuple(self.sweep.with_paths() if self.sweep else with_paths(self.speculation or ()))

    @property
    def cluster_name(self) -> str:
        """The name of the EKS cluster: an existing one's, or its own."""
        return self.aws.cluster or self.name

    @property
    def name_prefix(self) -> str:
        return name_prefix(self.models.target.id)

    @property
    def workload(self) -> Workload:
        """The kind of its variants' workloads. ``rules`` refuses a mix of services and jobs."""
        return self.serving_runtime.modes[self.speculations[0].mode].workload

    @property
    def compile_node(self) -> CompileNode | None:
        """The node of its compile Jobs; None for runtimes that compile at their first start."""
        first_start = self.serving_runtime.preparation is Preparation.FIRST_START
        return None if first_start else self.compiling.node

    @property
    def compile_instance(self) -> CompileInstance:
        """The CPU instance for compiles, by the weights of the target and the largest draft."""
        drafts = [self.models.draft, *(speculation.draft for speculation in self.speculations)]
        largest = max(
            (draft.resolved_architecture.checkpoint_gib for draft in drafts if draft), default=0
        )
        return compile_instance(self.models.target.resolved_architecture.checkpoint_gib + largest)

    @property
    def api_key_secret(self) -> str | None:
        """The name of the secret with the services' key; None if they need none."""
        return f"{self.name}/api-key" if self.serving.api_key else None

    @property
    def isolated(self) -> bool:
        """Whether each variant is measured by itself: in a sweep, or as a job."""
        return self.sweep is not None or self.workload is Workload.JOB

    @property
    def prompt_files(self) -> Mapping[str, PromptFile]:
        return self._prompt_files

    def with_prompts_of(self, files: Mapping[str, PromptFile]) -> Experiment:
        copy = self.model_copy()
        copy._prompt_files = files
        return copy

    @property
    def tags(self) -> dict[str, str]:
        """Tags of every resource."""
        return {"Experiment": self.name, **self.aws.tags}

    def prompts_of(self, case: TestCase) -> KnownSet | PromptFile | None:
        if case.set:
            return sets.KNOWN[case.set]
        return self._prompt_files[case.file] if case.file else None

    def least_lengths(self, case: TestCase) -> list[int]:
        """The fewest tokens of each prompt in the case's file, with its longest answer.

        A token never has a space inside, so a prompt has at least as many tokens as words.
        """
        prompts = self._prompt_files[case.file].prompts if case.file else ()
        return [
            prompt.words + (prompt.max_tokens or self.benchmark.mean_output_tokens)
            for prompt in prompts
            if not case.classes or prompt.prompt_class in case.classes
        ]

    def has_tools(self, case: TestCase) -> bool:
        prompts = self.prompts_of(case)
        return prompts is not None and prompts.has_tools

    def shows_steps(self, case: TestCase) -> bool:
        """Whether answers to ``case`` stream step by step. Those to prompts with tools do not."""
        if case.file is not None:
            return not all(prompt.tools for prompt in self._prompt_files[case.file].prompts)
        return not self.has_tools(case)

    @property
    def calls_tools(self) -> bool:
        """Whether any test case has tools, so that services must be configured for calls."""
        return any(map(self.has_tools, self.benchmark.test_cases))

    @property
    def price_description(self) -> str:
        price, bought = self.capacity.price, f"{self.capacity.purchase} in {self.aws.region}"
        missing = "" if self.priced_as_bought else f"; no price of {bought} is given"
        return f"{price.purchase} in {price.region}{missing}"

    @property
    def priced_as_bought(self) -> bool:
        price = self.capacity.price
        return (price.purchase, price.region) == (self.capacity.purchase, self.aws.region)

    @property
    def served_length(self) -> int:
        """Tokens of prompt and answer that a service takes: the compiled length less a window."""
        # With less room to look ahead, NxDI's engine ends (v0.6.10598, ``get_target_bucket``).
        return self.serving.length - self.largest_look_ahead

    @property
    def largest_look_ahead(self) -> int:
        """The most positions beyond the last token that a step of any variant may use."""
        modes = self.serving_runtime.modes
        return max(modes[s.mode].ahead(s.num_speculative_tokens) for s in self.speculations)

    @property
    def serving_runtime(self) -> Runtime:
        return RUNTIMES[self.runtime]
