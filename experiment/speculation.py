"""One way of speculating, and where the file says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from experiment.model import Model
from experiment.runtimes import Mode
from experiment.strict import Strict
from experiment.text_types import VariantName

Batch = Annotated[int, Field(ge=1, le=256)]
Window = Annotated[int, Field(ge=1, le=15)]


class Speculation(Strict):
    """How one variant speculates."""

    name: VariantName = Field(
        "SD",
        description="Names the variant, in CloudWatch's dimension Variant and in Kubernetes.",
    )
    mode: Mode = Field(description="Speculation mode; what a runtime can serve differs.")
    num_speculative_tokens: Window = Field(description="Tokens in the speculation window.")
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
