"""What stands in for the vLLM services: see ``golden.endpoints`` and ``vllm.endpoints``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from deployment.console import Console
from experiment import Experiment
from rehearsal.layout import Layout
from rehearsal.pod.caps import Caps
from rehearsal.pod.manifest import IndexedJob
from spectap.config import Variant


@dataclass(frozen=True)
class RunningEndpoints:
    """Endpoints that serve."""

    urls: Mapping[str, str]
    """Base URL, ``/v1`` included, by the name of the variant."""
    said: tuple[str, ...]
    """What the summary says of them."""
    beside: tuple[Variant, ...] = ()
    """Variants of the rehearsal's own, which the experiment has not; ``urls`` has them, too."""


@dataclass(frozen=True)
class Server:
    """A server that is not started yet."""

    url: str
    """Where it will serve, ``/v1`` included."""
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Servers:
    """The servers of a sweep, each of which its index starts."""

    by_variant: Mapping[str, Server]
    """By the name of the variant, in the order of the indexes."""
    said: tuple[str, ...]
    """What the summary says of them."""

    @property
    def urls(self) -> dict[str, str]:
        """Base URLs by the name of the variant."""
        return {name: server.url for name, server in self.by_variant.items()}


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

    @property
    def drafts_whole_window(self) -> bool:
        """Whether a step drafts as many tokens as its window has, as upstream vLLM does."""

    @property
    def at_once(self) -> int | None:
        """How many of a sweep's can serve at the same time; None: as many as there are cores."""

    @property
    def plays_jobs(self) -> bool:
        """Whether variants that run as jobs can be rehearsed where these stand in for services."""

    @property
    def start_seconds(self) -> int:
        """How long the benchmark of a sweep's index waits for one."""

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

    def servers(
        self,
        experiment: Experiment,
        job: IndexedJob,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> Servers:
        """Those of a sweep, which takes one stage less than ``stages``: none is started.

        Raises RehearsalError or ProcessError.
        """
