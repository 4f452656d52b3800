"""What a stage of an experiment is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deployment.errors import DeploymentError
from deployment.place import Place
from deployment.stages.shown import Shown


class StageFailed(DeploymentError):
    """A stage cannot reach its end, and to wait longer would not help. One line or more.

    Nodes are of no more use. Where they may be, as before anything is begun, it is another error.
    """


@dataclass(frozen=True)
class Way:
    """What every stage is told."""

    place: Place
    again: bool = False
    """Whether to measure anew what has been measured."""


class Stage(Protocol):
    """A part of the way that leaves something behind, by which it is known to be over.

    Each may be ended at any moment and begun again: what it leaves is asked for, never remembered.
    """

    @property
    def name(self) -> str:
        """One word, which the terminal shows."""

    @property
    def costs(self) -> bool:
        """Whether it may start what is paid for by the hour. Once a run is complete, no such stage
        is needed."""

    def there(self) -> str | None:
        """What of it is there already, in words; None if it is to be performed.

        Raises DeploymentError.
        """

    def perform(self, shown: Shown) -> str:
        """Goes on until its end; returns what it made, in words. Raises DeploymentError."""
