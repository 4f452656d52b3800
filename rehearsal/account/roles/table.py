"""Which stand-in each container has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from charts.names import DEVICES, Component
from rehearsal.account.roles import jobs, preparation, serving
from rehearsal.account.roles.around import Around, scripted
from rehearsal.cluster.disk import Container, NotThere
from rehearsal.cluster.programs import Program

Role = Callable[[Container, Around], Program]

ROLES: Final[Mapping[tuple[str, str], Role]] = {
    (Component.PREPARE, "download"): preparation.download,
    (Component.PREPARE, "draft"): preparation.draft,
    (Component.PREPARE, "compile"): preparation.compile,
    (Component.VLLM, DEVICES): serving.devices,
    (Component.SWEEP, DEVICES): serving.devices,
    (Component.OFFLINE, DEVICES): serving.devices,
    (Component.VLLM, "vllm"): serving.serve,
    (Component.VLLM, "keep-cache"): serving.keep_cache,
    (Component.BENCHMARK, "llmperf"): serving.benchmark,
    (Component.SWEEP, "vllm"): serving.serve_index,
    (Component.SWEEP, "benchmark"): serving.benchmark,
    (Component.OFFLINE, "collect"): serving.benchmark,
    (Component.OFFLINE, "generate"): jobs.generate,
}
"""By the pod's component and the container's name. All others run their own scripts."""


@dataclass(frozen=True)
class Roles:
    """The stand-ins of one experiment's pods."""

    around: Around
    held: set[str] = field(default_factory=set)
    """Names of containers that do not start while they are in it."""

    def program(self, container: Container) -> Program:
        """Read as ``StandIns.program``."""
        if container.name in self.held:
            raise NotThere(f"{container.name} is held back")
        role = ROLES.get((container.labels.get("component", ""), container.name), scripted)
        return role(container, self.around)
