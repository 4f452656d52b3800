"""One way of speculating, and where the file says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from experiment.model import Model
from experiment.runtimes import Mode
from experiment.strict import Strict
from experiment.text_types import VariantName

Batch = Annotated[int, Field(ge=1, le=256)]
LARGEST_WINDOW: Final = 15
Window = Annotated[int, Field(ge=1, le=LARGEST_WINDOW)]


class Speculation(Strict):
    """How one variant speculates."""

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


@dataclass(frozen=True)
class Place:
    """The fields of the file that make one variant what it is, e.g. ``sweep.windows[2]``."""

    mode: str
    window: str
    draft: str | None
    """None where the variant has no draft of its own."""
    batch: str | None
    """None where the variant has no batch of its own."""


def placed(listed: Sequence[Speculation]) -> tuple[tuple[Speculation, Place], ...]:
    """What the file lists as ``speculation``, each with its place."""
    return tuple((its, _place(its, f"speculation[{index}]")) for index, its in enumerate(listed))


def _place(speculation: Speculation, item: str) -> Place:
    return Place(
        mode=f"{item}.mode",
        window=f"{item}.num_speculative_tokens",
        draft=f"{item}.draft" if speculation.draft else None,
        batch=f"{item}.batch" if speculation.batch else None,
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
