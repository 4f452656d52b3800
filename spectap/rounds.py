"""How often a run measures each test case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

FEWEST_ROUNDS: Final = 3
"""The fewest rounds that an interval can be computed from: with two, Student's t has one degree of
freedom and an interval says nothing."""


class Rounds(BaseModel):
    """How often each test case is measured: a whole number, or a range and a precision.

    With a range, a test case is measured until it is decided, or until its intervals reach no
    further than ``half_width`` from their estimate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    # at_most comes first, because at_least is checked against it, and half_width against both.
    at_most: Annotated[int, Field(ge=1, description="Rounds of a test case that stays undecided.")]
    at_least: Annotated[int, Field(ge=1, description="Rounds of every test case.")]
    half_width: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None,
        description="Precise enough: 0.05 is 5 % either way. Required where at_most is more than "
        "at_least.",
        validate_default=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, data: Any) -> Any:
        """A whole number stands for that many rounds, no fewer and no more."""
        if isinstance(data, int) and not isinstance(data, bool):
            if data < 1:
                raise ValueError("must be at least 1")
            return {"at_least": data, "at_most": data}
        if not isinstance(data, (Mapping, cls)):
            keys = "at_least, at_most and half_width"
            raise ValueError(f"must be a whole number, or a mapping with the keys {keys}")
        return data

    @field_validator("at_least")
    @classmethod
    def _in_range(cls, value: int, others: ValidationInfo) -> int:
        most = others.data.get("at_most", value)
        if value > most:
            raise ValueError(f"must be at most {most}, which is at_most")
        if value < most and value < FEWEST_ROUNDS:
            raise ValueError(f"must be at least {FEWEST_ROUNDS}, the fewest that an interval needs")
        return value

    @field_validator("half_width")
    @classmethod
    def _with_a_range(cls, value: float | None, others: ValidationInfo) -> float | None:
        rounds = others.data
        if {"at_least", "at_most"} <= rounds.keys():
            fixed = rounds["at_least"] == rounds["at_most"]
            if not fixed and value is None:
                raise ValueError("is required, because at_most is more than at_least")
            if fixed and value is not None:
                raise ValueError("must be absent, because at_most equals at_least")
        return value

    @model_serializer(mode="wrap")
    def _as_number(self, serialize: SerializerFunctionWrapHandler) -> Any:
        return self.at_most if self.fixed else serialize(self)

    @property
    def fixed(self) -> bool:
        """Whether every test case gets the same number of rounds."""
        return self.at_least == self.at_most

    def __str__(self) -> str:
        if self.fixed:
            return f"{self.at_most} round" + ("" if self.at_most == 1 else "s")
        return f"{self.at_least} to {self.at_most} rounds"
