"""Published figures, which a report shows beside a run's own. They decide nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field, field_validator, model_validator

from spectap.inputs.load_points import Loop, Model, repeated

_Text = Annotated[str, Field(min_length=1)]


class Figure(StrEnum):
    """A kind of published figure. A speed-up is over the variant's baseline in this experiment."""

    TOKENS_PER_SECOND = "tokens-per-second"
    TPOT = "tpot-ms"
    TTFT = "ttft-ms"
    REQUEST_SPEEDUP = "request-speedup"
    DECODING_SPEEDUP = "decoding-speedup"
    THROUGHPUT_SPEEDUP = "throughput-speedup"
    ACCEPTANCE_LENGTH = "acceptance-length"
    ACCEPTANCE = "acceptance"


MEDIANS: Final = (Figure.TPOT, Figure.TTFT)
OF_BASELINES: Final = (Figure.TOKENS_PER_SECOND, *MEDIANS)


class PublishedFigure(Model):
    """A figure of one variant."""

    model_config = ConfigDict(strict=True)

    figure: Figure = Field(
        description="tokens-per-second: of all requests together. tpot-ms, ttft-ms: medians. A "
        "speed-up: of a request, of TPOT alone (decoding), or of tokens-per-second (throughput). "
        "acceptance-length: tokens of a step. acceptance: share of steps that accept a draft."
    )
    variant: _Text = Field(description="Its name here.")
    value: Annotated[float, Field(gt=0)]
    position: Annotated[int, Field(ge=1)] | None = Field(
        None, description="With acceptance, and only there: which draft of a step, from 1."
    )

    @property
    def title(self) -> str:
        """The figure's name: ``tpot-ms``, ``acceptance 2``."""
        return f"{self.figure} {self.position or ''}".rstrip()

    @model_validator(mode="after")
    def _consistent(self) -> PublishedFigure:
        if (self.figure is Figure.ACCEPTANCE) == (self.position is None):
            raise ValueError("position: is required with acceptance, and absent without")
        if self.position and self.value > 1:
            raise ValueError("value: must be at most 1 with acceptance, which is a share")
        return self


class Publication(Loop):
    """Figures of one source, for one test case at one load point."""

    model_config = ConfigDict(strict=True)

    source: Annotated[str, Field(pattern=r"^https?://\S+$")] = Field(
        description="URL of where it is published, with the version."
    )
    conditions: _Text = Field(description="What it was measured with, in words.")
    test_case: _Text = Field(description="The one here that it is held beside.")
    figures: Annotated[tuple[PublishedFigure, ...], Field(min_length=1)]

    @field_validator("figures")
    @classmethod
    def _each_once(cls, figures: tuple[PublishedFigure, ...]) -> tuple[PublishedFigure, ...]:
        if names := repeated(f"{each.title} of {each.variant}" for each in figures):
            raise ValueError(f"{names[0]} has two values; allowed is one")
        return figures
