"""The Trainium nodes, guarded, until a pod has opened their devices."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from kubernetes.client import ApiClient, CoreV1Api, ResourceV1Api, V1Node

from charts.claims import DRIVER
from charts.names import NODE_GROUP_LABEL, TRAINIUM_NODES
from deployment import clock, guard, nodes, stopper
from deployment.cluster import connected, kubernetes_in_words
from deployment.nodes import Kind
from deployment.stages.devices import closed
from deployment.stages.shown import Shown
from deployment.stages.stage import StageFailed, Way
from deployment.stages.waiting import why_no_nodes


@dataclass(frozen=True)
class Start:
    """As many nodes as the experiment says."""

    way: Way
    name = "start"
    costs = True

    def there(self) -> str | None:
        """Asks EKS, the schedule and the cluster. The guard counts from nodes that came meanwhile.

        Raises DeploymentError.
        """
        place = self.way.place
        group, guarded = nodes.find(place, Kind.TRAINIUM), guard.find(place, Kind.TRAINIUM)
        if group is None or group.size < self._wanted or guarded is None:
            return None
        if stopper.is_under_way(place) or stopper.has_just_ended(place):
            return None
        with connected(place) as api:
            if len(_with_devices(api)) < self._wanted or closed(api):
                return None
            return self._found(self._counted(_ready(api)) or guarded)

    def perform(self, shown: Shown) -> str:
        """The guard first, then the nodes. Raises DeploymentError."""
        place = self.way.place
        guarded = guard.start(place, Kind.TRAINIUM, self._wanted)
        shown.say(f"the guard scales them to 0 at {guarded.at:%Y-%m-%d %H:%M} UTC")
        with connected(place) as api:
            try:
                shown.until(lambda: self._look(api, shown))
            except StageFailed:
                # Otherwise they would come once they can, when nobody waits for them any more.
                if not _ready(api):
                    guard.stop(place, Kind.TRAINIUM)
                raise
            return self._found(self._counted(_ready(api)) or guarded)

    def _counted(self, ready: Mapping[str, datetime.datetime]) -> guard.Guard | None:
        """The guard, which counts from when the first node joined."""
        joined = min(ready.values(), default=clock.now())
        return guard.count_from(self.way.place, Kind.TRAINIUM, joined)

    def _look(self, api: ApiClient, shown: Shown) -> bool | None:
        group = nodes.find(self.way.place, Kind.TRAINIUM)
        if group is None or not group.size:
            raise StageFailed("the Trainium nodes were scaled to 0 meanwhile, by hand or the guard")
        ready, usable = _ready(api), _with_devices(api)
        if ready:
            self._counted(ready)
        if len(usable) >= self._wanted:
            return self._opened(api, shown)
        words = [f"{len(ready)} of {self._wanted} nodes are ready"]
        if ready:
            words.append(f"{len(usable)} report their devices")
        words += why_no_nodes(self.way.place, group) if len(ready) < self._wanted else []
        shown.waits("; ".join(words))
        return None

    def _opened(self, api: ApiClient, shown: Shown) -> bool | None:
        devices = closed(api)
        if devices is None:
            return True
        if devices.final:
            raise StageFailed(f"the pods cannot use the devices\n{devices.reason}")
        shown.waits(devices.reason)
        return None

    def _found(self, guarded: guard.Guard) -> str:
        capacity, number = self.way.place.experiment.capacity, self._wanted
        return f"{number} x {capacity.instance_type}, until {guarded.at:%Y-%m-%d %H:%M} UTC"

    @property
    def _wanted(self) -> int:
        return self.way.place.experiment.capacity.nodes


def _ready(api: ApiClient) -> dict[str, datetime.datetime]:
    """The Trainium nodes that take pods, and when each joined."""
    with kubernetes_in_words():
        found: list[V1Node] = (
            CoreV1Api(api).list_node(label_selector=f"{NODE_GROUP_LABEL}={TRAINIUM_NODES}").items
        )
    return {
        node.metadata.name: node.metadata.creation_timestamp
        for node in found
        if any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or [])
    }


def _with_devices(api: ApiClient) -> set[str]:
    """Those whose devices the driver has told of."""
    with kubernetes_in_words():
        slices = ResourceV1Api(api).list_resource_slice().items
    told = {each.spec.node_name for each in slices if each.spec.driver == DRIVER}
    return _ready(api).keys() & told
