"""The Trainium nodes: guarded until a pod has opened their devices, and ended after the run."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kubernetes.client import ApiClient, CoreV1Api, ResourceV1Api, V1Pod

from charts.indexes import NEVER
from charts.names import DEVICES, LOGS_PREFIX, NODE_GROUP_LABEL, TRAINIUM_NODES
from charts.namespace import DRIVER
from deployment import clock, cluster, guard, nodes, pods
from deployment.account import Bucket, Deployment, DeploymentError
from deployment.cluster import connected, kubernetes_errors
from deployment.logs import sources
from deployment.nodes import Group, Kind
from deployment.stages.stage import Progress, Stage, StageFailed

STOPPED: Final = "the Trainium nodes were scaled to 0 meanwhile, by hand or the guard"
_LINES: Final = 100_000
"""Of each container's log, the last ones."""
_NEVER: Final = ("VcpuLimitExceeded", "InstanceLimitExceeded", "Unsupported")
"""What Auto Scaling tries in vain, however long one waits: a quota, or a type that is not sold."""


class Start(Stage):
    """As many nodes as the experiment says."""

    name = "start"

    def existing(self) -> str | None:
        """Asks EKS, the schedule and the cluster. The guard counts from the first node."""
        group = nodes.find(self.deployment, Kind.TRAINIUM)
        guarded = guard.find(self.deployment, Kind.TRAINIUM)
        if group is None or group.size < self._size or guarded is None:
            return None
        if nodes.is_stopper_running(self.deployment):
            return None
        if nodes.has_stopper_just_ended(self.deployment):
            return None
        with connected(self.deployment) as api:
            if len(_with_devices(api)) < self._size or closed(api):
                return None
            return self._started(self._counted(_ready(api)) or guarded)

    def perform(self, progress: Progress) -> str:
        """The guard first, then the nodes."""
        guarded = guard.start(self.deployment, Kind.TRAINIUM, self._size)
        progress.say(f"the guard scales them to 0 at {guarded.at:%Y-%m-%d %H:%M} UTC")
        with connected(self.deployment) as api:
            try:
                progress.until(lambda: self._look(api, progress))
            except StageFailed:
                # Otherwise they would come once they can, when nobody waits for them any more.
                if not _ready(api):
                    guard.stop(self.deployment, Kind.TRAINIUM)
                raise
            return self._started(self._counted(_ready(api)) or guarded)

    def _counted(self, ready: Mapping[str, datetime.datetime]) -> guard.NodeGuard | None:
        """The guard, which counts from when the first node joined."""
        joined = min(ready.values(), default=clock.now())
        return guard.count_from(self.deployment, Kind.TRAINIUM, joined)

    def _look(self, api: ApiClient, progress: Progress) -> bool | None:
        group = nodes.find(self.deployment, Kind.TRAINIUM)
        if group is None or not group.size:
            raise StageFailed(STOPPED)
        ready, usable = _ready(api), _with_devices(api)
        if ready:
            self._counted(ready)
        if len(usable) >= self._size:
            devices = closed(api)
            if devices is None:
                return True
            if devices.final:
                raise StageFailed(f"the pods cannot use the devices\n{devices.reason}")
            progress.wait(devices.reason)
            return None
        words = [f"{len(ready)} of {self._size} nodes are ready"]
        if ready:
            words.append(f"{len(usable)} report their devices")
        if len(ready) < self._size:
            words += why_no_nodes(self.deployment, group)
        progress.wait("; ".join(words))
        return None

    def _started(self, guarded: guard.NodeGuard) -> str:
        capacity = self.deployment.experiment.capacity
        return f"{self._size} x {capacity.instance_type}, until {guarded.at:%Y-%m-%d %H:%M} UTC"

    @property
    def _size(self) -> int:
        return self.deployment.experiment.capacity.nodes


class Stop(Stage):
    """Both groups at 0, unless the experiment keeps its Trainium nodes."""

    name = "stop"
    costs = False

    def existing(self) -> str | None:
        """Only that there are no groups, or that they are kept: EKS may report an old size."""
        if any(group.kind in self._kinds for group in nodes.groups(self.deployment)):
            return None
        return "no group of nodes is to be stopped"

    def perform(self, progress: Progress) -> str:
        """Returns once EKS has carried it out."""
        for kind in self._kinds:
            guard.stop(self.deployment, kind)
        return f"{' and '.join(self._kinds)} nodes are scaled to 0"

    @property
    def _kinds(self) -> list[Kind]:
        stops = self.deployment.experiment.capacity.stops_after_run
        return [kind for kind in Kind if stops or kind is not Kind.TRAINIUM]


class Closed(NamedTuple):
    """Devices that no pod has opened yet."""

    reason: str
    final: bool
    """Whether their user may not open them: neither a graph nor a service is worth the nodes."""


def closed(api: ApiClient) -> Closed | None:
    """None once a pod has opened its devices, or where no pod is going to.

    Raises DeploymentError.
    """
    codes = [
        (pod, _exit_code(pod))
        for pod in cluster.pods(api)
        if any(each.name == DEVICES for each in pod.spec.init_containers or [])
    ]
    # Before all others: devices that one pod has opened are no help to another that may not.
    if refused := next((pod for pod, code in codes if code == NEVER), None):
        return Closed(pods.last_words(api, refused), final=True)
    # A pod is Pending until its init containers have ended.
    if any(code == 0 or pod.status.phase == "Running" for pod, code in codes):
        return None
    waiting = next((pod for pod, _ in codes if pod.status.phase == "Pending"), None)
    if waiting is None:
        return None
    name, reason = waiting.metadata.name, pods.reason(api, waiting)
    return Closed(f"{name} is to open its devices: {reason}", final=False)


def not_ready(api: ApiClient, selector: str) -> Iterator[str]:
    """Why each pod that is not ready is not. Raises DeploymentError."""
    for pod in cluster.pods(api, selector):
        if reason := pods.reason(api, pod):
            yield f"{pod.metadata.name}: {reason}"


def why_no_nodes(deployment: Deployment, group: Group | None) -> Iterator[str]:
    """What EKS and Auto Scaling say of nodes that do not come.

    Raises StageFailed for what stays as it is.
    """
    if group is None:
        return
    failures = nodes.failures(deployment, group)
    for reason in failures:
        if any(word in reason for word in _NEVER):
            raise StageFailed(f"the {group.kind} nodes cannot start: {reason}")
    for reason in (*failures, *group.issues):
        yield f"no node yet: {reason}"


def are_stopped(deployment: Deployment) -> bool:
    """Whether the Trainium nodes are to be 0 now, by hand or by their guard."""
    group = nodes.find(deployment, Kind.TRAINIUM)
    return group is None or not group.size


def _exit_code(pod: V1Pod) -> int | None:
    """What the container that opens the devices ended with last."""
    for status in pod.status.init_container_statuses or []:
        if status.name == DEVICES:
            for state in (status.state, status.last_state):
                if state and state.terminated:
                    code: int = state.terminated.exit_code
                    return code
    return None


def _ready(api: ApiClient) -> dict[str, datetime.datetime]:
    """The Trainium nodes that take pods, and when each joined."""
    with kubernetes_errors():
        selector = f"{NODE_GROUP_LABEL}={TRAINIUM_NODES}"
        listed = CoreV1Api(api).list_node(label_selector=selector).items
    return {
        node.metadata.name: node.metadata.creation_timestamp
        for node in listed
        if any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or [])
    }


def _with_devices(api: ApiClient) -> set[str]:
    """Those whose devices the driver reports."""
    with kubernetes_errors():
        slices = ResourceV1Api(api).list_resource_slice().items
    reported = {each.spec.node_name for each in slices if each.spec.driver == DRIVER}
    return _ready(api).keys() & reported


def end_nodes(deployment: Deployment) -> str:
    """Stores the logs, then scales both groups to 0; returns what was done, a line each.

    Raises DeploymentError where there is neither group.
    """
    kinds = [group.kind for group in nodes.groups(deployment)]
    if not kinds:
        raise DeploymentError("there are no nodes to end")
    try:
        lines = [f"logs of all pods: {_store_logs(deployment)}"]
    except DeploymentError as error:
        lines = [f"logs are not stored: {error}"]
    for kind in kinds:
        try:
            guard.stop(deployment, kind)
            lines.append(f"{kind} nodes: scaled to 0 (capacity.after_failure)")
        except DeploymentError as error:  # the other group is to end all the same
            lines.append(f"{kind} nodes: {error}")
    return "\n".join(lines)


def _store_logs(deployment: Deployment) -> str:
    """Puts what each container has written, and its last start before, into the bucket."""
    bucket = Bucket(deployment)
    folder = f"{LOGS_PREFIX}{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}/"
    with connected(deployment) as api:
        for pod in cluster.pods(api):
            for source in sources(pod):
                text = pods.log(api, pod, source.container, _LINES, previous=source.previous)
                before = ".previous" if source.previous else ""
                key = f"{folder}{source.pod}/{source.container}{before}.log"
                bucket.write(key, text.encode())
    return f"s3://{bucket.name}/{folder}"
