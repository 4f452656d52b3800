"""The resources of a service, and the variants that speculate, listed or swept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from experiment.fields import DISTINCT, Strict, VariantName
from experiment.known_models import Mode, Model

LARGEST_WINDOW: Final = 15
LONGEST_DRAFT: Final = 20 - len("-k15-b256")
"""The characters of a variant's name that are left for its draft."""

Batch = Annotated[int, Field(ge=1, le=256)]
Window = Annotated[int, Field(ge=1, le=LARGEST_WINDOW)]


class Serving(Strict):
    """The resources and limits of each service. All services get the same."""

    devices: Literal[1, 4, 8, 16] = Field(
        description="Neuron devices of each service, out of one connected device group."
    )
    logical_core_size: Literal[1, 2] = Field(
        description="Physical NeuronCores in one logical core (LNC)."
    )
    tensor_parallel: Literal[1, 2, 4, 8, 16, 32, 64] = Field(
        description="Must be devices x cores per device / logical_core_size; with vllm-neuron "
        "a divisor of it."
    )
    batch: Batch = Field(description="Sequences decoded together.")
    length: int = Field(
        ge=128,
        description="Tokens of prompt and answer together that are compiled for; the services take "
        "a window less.",
    )
    api_key: bool = Field(
        False,
        description="Whether the services ask for a key, which is made by the deploy and kept in "
        "Secrets Manager.",
    )


class Speculation(Strict):
    """The speculation of one variant."""

    name: VariantName = Field(
        "SD",
        description="Names the variant, in CloudWatch's dimension Variant and in Kubernetes.",
    )
    mode: Mode = Field(description="Speculation mode; what a runtime can serve differs.")
    num_speculative_tokens: Window = Field(
        description="Tokens in the speculation window; with dflash, the draft's block_size - 1."
    )
    draft: Model | None = Field(None, description="Another draft than models.draft.")
    batch: Batch | None = Field(
        None,
        description="Another batch than serving.batch. Each batch has a baseline of its own.",
    )
    async_scheduling: bool = Field(
        False,
        description="Whether it keeps the async scheduling that its baseline has: eagle3 on "
        "vllm-neuron alone, whose guide and code disagree on it (docs/assumptions.md).",
    )


@dataclass(frozen=True)
class YamlPaths:
    """The fields of the file that define one variant, such as ``sweep.windows[2]``."""

    mode: str
    window: str
    draft: str | None
    batch: str | None
    """The field of the batch; None, like ``draft``, where the variant has none of its own."""


def with_paths(listed: Sequence[Speculation]) -> Iterator[tuple[Speculation, YamlPaths]]:
    """The items of the file's ``speculation``, each with its fields."""
    for number, speculation in enumerate(listed):
        item = f"speculation[{number}]"
        draft = f"{item}.draft" if speculation.draft else None
        batch = f"{item}.batch" if speculation.batch else None
        yield speculation, YamlPaths(f"{item}.mode", f"{item}.num_speculative_tokens", draft, batch)


def _listed(value: Any) -> Any:
    """Makes a tuple of a mapping, or of a list's items.

    ``experiment.loader`` undoes this when it looks for a field's line.
    """
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


class Sweep(Strict):
    """The drafts, windows and batches to compare. Each batch has a baseline of its own."""

    mode: Mode = Field(description="Speculation mode; what a runtime can serve differs.")
    drafts: Annotated[tuple[Model, ...], Field(min_length=1), DISTINCT] | None = Field(
        None, description="Draft models; null for models.draft alone."
    )
    windows: Annotated[tuple[Window, ...], Field(min_length=1), DISTINCT] = Field(
        description="Each a num_speculative_tokens."
    )
    batches: Annotated[tuple[Batch, ...], Field(min_length=1), DISTINCT] | None = Field(
        None, description="Null for serving.batch alone."
    )
    at_most_usd: float = Field(
        gt=0,
        description="A sweep that is estimated to cost more is refused, and the Trainium nodes are "
        "scaled to 0 when it is spent, counted from their start.",
    )
    run: int = Field(
        1,
        ge=1,
        le=9999,
        description="Another number measures the same sweep anew. With the same one, what is "
        "complete is kept.",
    )

    def with_paths(self) -> Iterator[tuple[Speculation, YamlPaths]]:
        """The variants without the baselines, each with the fields of the file that define it.

        They are named by what they differ in: ``Qwen3-1-7B-k7``, ``k7-b16``. No two names are the
        same, whatever the case.
        """
        drafts, batches = self.drafts or (None,), self.batches or (None,)
        names = _names(self.drafts or ())
        for (d, draft), (b, batch), (w, window) in product(
            enumerate(drafts), enumerate(batches), enumerate(self.windows)
        ):
            name = f"k{window}"
            if len(drafts) > 1:
                name = f"{names[d]}-{name}"
            if len(batches) > 1:
                name = f"{name}-b{batch}"
            speculation = Speculation(
                name=name, mode=self.mode, num_speculative_tokens=window, draft=draft, batch=batch
            )
            yield (
                speculation,
                YamlPaths(
                    mode="sweep.mode",
                    window=f"sweep.windows[{w}]",
                    draft=f"sweep.drafts[{d}]" if draft else None,
                    batch=f"sweep.batches[{b}]" if batch else None,
                ),
            )


def _names(drafts: Sequence[Model]) -> list[str]:
    """Each draft's part of a variant's name: ``Qwen3-1-7B`` for ``Qwen/Qwen3-1.7B``.

    Drafts whose names are too long, or not distinct, are numbered: ``draft-1``.
    """
    short = [draft.id.rpartition("/")[2].replace(".", "-").replace("_", "-") for draft in drafts]
    distinct = len({name.lower() for name in short}) == len(short)
    if distinct and all(len(name) <= LONGEST_DRAFT for name in short):
        return short
    return [f"draft-{number}" for number in range(1, len(drafts) + 1)]
