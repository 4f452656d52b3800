"""What stands in for the vLLM services: see ``golden.endpoints`` and ``vllm.endpoints``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from experiment import Experiment
from rehearsal.console import Console
from rehearsal.layout import Layout
from rehearsal.pod.caps import Caps


@dataclass(frozen=True)
class RunningEndpoints:
    """Endpoints that serve."""

    urls: Mapping[str, str]
    """Base URL, ``/v1`` included, by the name of the variant."""
    said: tuple[str, ...]
    """What the summary says of them."""


class Endpoints(Protocol):
    """A kind of endpoints."""

    @property
    def name(self) -> str:
        """What they are, for the table and the report."""

    @property
    def stages(self) -> int:
        """How many stages their start takes."""

    @property
    def caps(self) -> Caps:
        """What they are asked for at most."""

    def serving(
        self,
        experiment: Experiment,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> AbstractContextManager[RunningEndpoints]:
        """Starts one for each service, shows that on ``console``, and ends them.

        Raises RehearsalError or ProcessError.
        """
