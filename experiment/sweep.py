"""A sweep: drafts x windows x batches, each combination a variant that is measured by itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Annotated

from pydantic import Field

from experiment.model import Model
from experiment.runtimes import Mode
from experiment.speculation import Batch, Speculation, Window
from experiment.strict import Strict


class Sweep(Strict):
    """Which drafts, windows and batches are compared. Each batch has a baseline of its own."""

    mode: Mode = Field(description="Speculation mode; what a runtime can serve differs.")
    drafts: Annotated[tuple[Model, ...], Field(min_length=1)] | None = Field(
        None, description="Draft models; null for models.draft alone."
    )
    windows: Annotated[tuple[Window, ...], Field(min_length=1)] = Field(
        description="Each a num_speculative_tokens."
    )
    batches: Annotated[tuple[Batch, ...], Field(min_length=1)] | None = Field(
        None, description="Null for serving.batch alone."
    )
    at_most_usd: Annotated[float, Field(gt=0)] = Field(
        description="A sweep that is estimated to cost more is refused, and one that runs for "
        "longer than this pays for is ended."
    )
    run: Annotated[int, Field(ge=1)] = Field(
        1,
        description="Another number measures the same sweep anew. With the same one, what is "
        "complete is kept.",
    )

    @property
    def speculations(self) -> tuple[Speculation, ...]:
        """The variants but for the baselines, named by what they differ in: ``Qwen3-1-7B-k7``."""
        return tuple(self._speculations())

    def _speculations(self) -> Iterator[Speculation]:
        drafts, batches = self.drafts or (None,), self.batches or (None,)
        for draft, batch, window in product(drafts, batches, self.windows):
            yield Speculation(
                name="-".join(
                    [
                        *([_short(draft.id)] if draft and len(drafts) > 1 else []),
                        f"k{window}",
                        *([f"b{batch}"] if len(batches) > 1 else []),
                    ]
                ),
                mode=self.mode,
                num_speculative_tokens=window,
                draft=draft,
                batch=batch,
            )


def _short(model: str) -> str:
    """A model's name as it may stand in a variant's: ``Qwen3-1-7B`` for ``Qwen/Qwen3-1.7B``."""
    return model.rpartition("/")[2].replace(".", "-").replace("_", "-")
