"""The services: each loads its graph onto its devices, and then answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubernetes.client import ApiClient, V1Deployment

from charts.names import Component
from deployment.cluster import connected
from deployment.stages import objects
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed, Way
from deployment.stages.waiting import nodes_are_gone, not_ready
from experiment.variants import variants

RESTARTS: Final = 3
"""After so many of one container a service is given up: what it does not get over at once, such as
a graph that does not fit the image, it never does."""


@dataclass(frozen=True)
class Serve:
    """All services, ready."""

    way: Way
    name = "serve"
    costs = True

    def there(self) -> str | None:
        """Asks for the Deployments. Raises DeploymentError."""
        with connected(self.way.place) as api:
            return None if self._missing(api) else self._found

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        with connected(self.way.place) as api:
            shown.until(lambda: self._look(api, shown))
        return self._found

    def _look(self, api: ApiClient, shown: Shown) -> bool | None:
        missing = self._missing(api)
        if not missing:
            return True
        if nodes_are_gone(self.way.place):
            raise StageFailed("the Trainium nodes were scaled to 0 meanwhile, by hand or the guard")
        words: list[str] = []
        for service in missing:
            for pod in objects.pods(api, f"app={service}"):
                if objects.restarts(pod) >= RESTARTS:
                    raise StageFailed(
                        f"{service} does not come to serve: {objects.restarts(pod)} restarts\n"
                        f"{objects.last_words(api, pod)}"
                    )
            words += not_ready(api, f"app={service}")
        ready = len(self._services) - len(missing)
        shown.waits("; ".join([f"{ready} of {len(self._services)} are ready", *words]))
        return None

    def _missing(self, api: ApiClient) -> list[str]:
        found = objects.deployments(api, f"component={Component.VLLM}")
        ready = {its.metadata.name for its in found if _is_ready(its)}
        return [service for service in self._services if service not in ready]

    @property
    def _services(self) -> list[str]:
        return [variant.service for variant in variants(self.way.place.experiment)]

    @property
    def _found(self) -> str:
        return f"{', '.join(self._services)} are ready"


def _is_ready(found: V1Deployment) -> bool:
    status, wanted = found.status, found.metadata.generation
    # A change that the controller has not seen yet would be taken for carried out.
    return bool(status.ready_replicas and (status.observed_generation or 0) >= wanted)
