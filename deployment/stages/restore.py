"""The objects that the deploy has made in the cluster: those that are gone are made again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubernetes.client import ApiClient

from deployment import lifecycle
from deployment.cluster import connected
from deployment.stages import objects
from deployment.stages.objects import Manifest
from deployment.stages.shown import Shown
from deployment.stages.stage import Way


@dataclass(frozen=True)
class Restore:
    """Every object of the manifests. A deploy that changes nothing makes none.

    Before any node is paid for: whatever waits for an object that is gone waits in vain.
    """

    way: Way
    name = "objects"
    costs = True

    def there(self) -> str | None:
        """Asks for each. Raises DeploymentError."""
        manifests = lifecycle.manifests(self.way.place)
        with connected(self.way.place) as api:
            for manifest in manifests:
                its = objects.find(api, manifest)
                if its is None or _is_ending(its):
                    return None
        return f"all {len(manifests)} exist"

    def perform(self, shown: Shown) -> str:
        """Raises DeploymentError."""
        manifests = lifecycle.manifests(self.way.place)
        made: list[str] = []
        with connected(self.way.place) as api:
            shown.until(lambda: _look(api, manifests, made, shown))
        return f"{', '.join(made)} made again" if made else "nothing was missing"


def _look(
    api: ApiClient, manifests: Sequence[Manifest], made: list[str], shown: Shown
) -> bool | None:
    """One that is being deleted still has its name, so that it cannot be made again yet."""
    ending = []
    for manifest in manifests:
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        its = objects.find(api, manifest)
        if its is None:
            objects.create(api, manifest)
            made.append(name)
        elif _is_ending(its):
            ending.append(name)
    if ending:
        shown.waits(f"still being deleted: {', '.join(ending)}")
        return None
    return True


def _is_ending(its: Any) -> bool:
    return its.metadata.deletion_timestamp is not None
