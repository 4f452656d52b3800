"""As much of a tensor as a script takes in its hands that has tokens and no arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload


class Scalar(int):
    """A tensor without dimensions."""

    def item(self) -> int:
        """Its number."""
        return int(self)


class Tensor:
    """Whole numbers in one dimension or two."""

    def __init__(self, values: Sequence[int] | Sequence[Sequence[int]]) -> None:
        self._values = [[*value] if isinstance(value, Sequence) else value for value in values]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its length in each dimension."""
        first = self._values[0] if self._values else None
        return (len(self._values), len(first)) if isinstance(first, list) else (len(self._values),)

    def size(self, dimension: int) -> int:
        """Its length in one dimension."""
        return self.shape[dimension]

    def tolist(self) -> list[int] | list[list[int]]:
        """As lists."""
        return [*self._values]  # type: ignore[return-value]  # all of one kind

    @property
    def row(self) -> list[int]:
        """The only row of a batch of one."""
        (row,) = self._values
        assert isinstance(row, list)
        return [*row]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Tensor | Scalar]:
        return (self[index] for index in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Tensor | Scalar: ...
    @overload
    def __getitem__(self, index: slice) -> Tensor: ...
    def __getitem__(self, index: int | slice) -> Tensor | Scalar:
        if isinstance(index, slice):
            return Tensor(self._values[index])  # type: ignore[arg-type]  # all of one kind
        value = self._values[index]
        return Tensor(value) if isinstance(value, list) else Scalar(value)
