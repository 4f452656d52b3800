"""A sweep: drafts x windows x batches, each combination a variant that is measured by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Annotated, Final, TypeVar

from pydantic import Field

from experiment.model import Model
from experiment.runtimes import Mode
from experiment.speculation import Batch, Place, Speculation, Window
from experiment.strict import Strict

LONGEST_DRAFT: Final = 20 - len("-k15-b256")
"""Characters of a variant's name that are left for its draft's."""

_Item = TypeVar("_Item")


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
        description="A sweep that is estimated to cost more is refused, and the Trainium nodes are "
        "scaled to 0 when it is spent, counted from their start."
    )
    run: Annotated[int, Field(ge=1, le=9999)] = Field(
        1,
        description="Another number measures the same sweep anew. With the same one, what is "
        "complete is kept.",
    )

    @property
    def placed(self) -> tuple[tuple[Speculation, Place], ...]:
        """The variants but for the baselines, and where the file says what each is made of.

        They are named by what they differ in: ``Qwen3-1-7B-k7``, ``k7-b16``. No two names are the
        same, whatever the case, if nothing is listed twice.
        """
        return tuple(self._placed())

    def _placed(self) -> Iterator[tuple[Speculation, Place]]:
        drafts, batches = _indexed(self.drafts), _indexed(self.batches)
        names = _names(self.drafts or ())
        windows = enumerate(self.windows)
        for (d, draft), (b, batch), (w, window) in product(drafts, batches, windows):
            parts = [
                *([names[d]] if len(names) > 1 else []),
                f"k{window}",
                *([f"b{batch}"] if len(batches) > 1 else []),
            ]
            speculation = Speculation(
                name="-".join(parts),
                mode=self.mode,
                num_speculative_tokens=window,
                draft=draft,
                batch=batch,
            )
            yield (
                speculation,
                Place(
                    mode="sweep.mode",
                    window=f"sweep.windows[{w}]",
                    draft=f"sweep.drafts[{d}]" if draft else None,
                    batch=f"sweep.batches[{b}]" if batch else None,
                ),
            )


def _indexed(listed: Sequence[_Item] | None) -> list[tuple[int, _Item | None]]:
    """What is listed, with its positions; the usual alone, as None, where nothing is."""
    return list(enumerate(listed or (None,)))


def _names(drafts: Sequence[Model]) -> list[str]:
    """Each draft's name as a variant's has it: ``Qwen3-1-7B`` for ``Qwen/Qwen3-1.7B``.

    Where these are too long, or not distinct, the drafts are numbered: ``draft-1``.
    """
    short = [draft.id.rpartition("/")[2].replace(".", "-").replace("_", "-") for draft in drafts]
    distinct = len({name.lower() for name in short}) == len(short)
    if distinct and all(len(name) <= LONGEST_DRAFT for name in short):
        return short
    return [f"draft-{number}" for number in range(1, len(drafts) + 1)]
