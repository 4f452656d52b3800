"""What is made to go wrong in the rehearsal of variants that are measured apart."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from rehearsal.errors import RehearsalError


@dataclass(frozen=True)
class Faults:
    """Indexes to which something happens; by default none."""

    killed: frozenset[int] = frozenset()
    """The benchmark's first attempt is killed as soon as the bucket has one of its turns."""
    broken: frozenset[int] = frozenset()
    """The server of a sweep's never starts; a job leaves no output."""

    def check(self, indexes: int) -> None:
        """Raises RehearsalError if not all of them are of so many indexes; 0: there are none.

        Nor can one index have both faults: a broken one never has records.
        """
        for option, asked in (("--kill", self.killed), ("--break", self.broken)):
            if unknown := sorted(index for index in asked if not 0 <= index < indexes):
                has = (
                    f"the experiment has the indexes 0 to {indexes - 1}"
                    if indexes
                    else "the experiment has neither a sweep nor jobs"
                )
                raise RehearsalError(f"{option} {unknown[0]}: {has}")
        if both := sorted(self.killed & self.broken):
            raise RehearsalError(
                f"--kill {both[0]}: must not be that of --break too, since a broken index has no "
                "middle to be killed in"
            )

    @property
    def said(self) -> tuple[str, ...]:
        """One line for each kind of fault that is made."""
        return (
            *_said("killed once, in the middle", self.killed),
            *_said("without a server, or without output", self.broken),
        )


def _said(fault: str, indexes: Collection[int]) -> list[str]:
    return [f"faults: index {index} {fault}" for index in sorted(indexes)]


NO_FAULTS: Final = Faults()
