"""The Trainium nodes: guarded until a pod has opened their devices, and ended after the run."""

import datetime
from collections.abc import Iterator
from typing import Final

from kubernetes.client import CoreV1Api, V1Node, V1Pod

from charts.names import DEVICES, LOGS_PREFIX, NODE_GROUP_LABEL, node_label
from charts.sweep_job import EXIT_PERMANENT
from operations import cluster, guard, nodes, pods
from operations.account import Bucket, Deployment, DeploymentError
from operations.cluster import Api, connected
from operations.nodes import Group, Kind
from operations.stages.stage import Progress, Stage, StageFailed

STOPPED: Final = "the Trainium nodes were scaled to 0 meanwhile, by hand or the guard"
_LINES: Final = 100_000
"""How many of a container's log are kept: the last ones."""
_JOINING: Final = datetime.timedelta(minutes=20)
"""How long an instance may take to be a ready node: five minutes as a rule."""
_NEVER: Final = ("VcpuLimitExceeded", "InstanceLimitExceeded", "Unsupported")
"""Failures of Auto Scaling that do not pass: a quota, or a type that is not sold."""


class Start(Stage):
    """Starts the experiment's nodes, and waits until a pod has opened their devices."""

    name = "start"

    def perform(self, progress: Progress) -> str:
        capacity = self.deployment.experiment.capacity
        until = guard.start(self.deployment, Kind.TRAINIUM, capacity.nodes)
        progress.say(f"the guard scales them to 0 at {until:%Y-%m-%d %H:%M} UTC")
        with connected(self.deployment) as api:
            try:
                progress.until(lambda: self._look(api, progress))
            except StageFailed:
                # Otherwise they would come once they can, when nobody waits for them any more.
                if not _ready(self.deployment, api, Kind.TRAINIUM):
                    guard.stop(self.deployment, Kind.TRAINIUM)
                raise
        until = guard.find(self.deployment, Kind.TRAINIUM) or until
        return f"{capacity.nodes} x {capacity.instance_type}, until {until:%Y-%m-%d %H:%M} UTC"

    def _look(self, api: Api, progress: Progress) -> bool | None:
        size = self.deployment.experiment.capacity.nodes
        group = nodes.find(self.deployment, Kind.TRAINIUM)
        if group is None or not group.size:
            raise StageFailed(STOPPED)
        joined = _ready(self.deployment, api, Kind.TRAINIUM)
        if joined:
            first = min(node.metadata.creation_timestamp for node in joined)
            guard.count_from(self.deployment, Kind.TRAINIUM, first)
        if len(joined) >= size:
            reason = closed_devices(api)
            if reason is None:
                return True
            progress.wait(reason)
            return None
        why = why_no_nodes(api, group)
        progress.wait("; ".join([f"{len(joined)} of {size} nodes are ready", *why]))
        return None


class Stop(Stage):
    """Both groups at 0, unless the experiment keeps its Trainium nodes."""

    name = "stop"
    costs = False

    def perform(self, progress: Progress) -> str:
        """Returns once EKS has carried it out: EKS may report an old size."""
        stops = self.deployment.experiment.capacity.stops_after_run
        kinds = [kind for kind in Kind if stops or kind is not Kind.TRAINIUM]
        stopped = [kind for kind in kinds if guard.stop(self.deployment, kind)]
        return f"nodes scaled to 0: {' and '.join(stopped) or 'none'}"


def closed_devices(api: Api) -> str | None:
    """Why no pod has opened its devices yet; None once one has, or where none is going to.

    Raises StageFailed if a pod may not open them, because then neither a graph nor a service is
    worth the nodes; or DeploymentError.
    """
    codes: list[tuple[V1Pod, int | None]] = []
    for pod in cluster.pods(api):
        if any(each.name == DEVICES for each in pod.spec.init_containers or []):
            statuses = pod.status.init_container_statuses or []
            states = [(s.state, s.last_state) for s in statuses if s.name == DEVICES]
            ended = (s.terminated.exit_code for pair in states for s in pair if s and s.terminated)
            codes.append((pod, next(ended, None)))
    # Before all others: devices that one pod has opened are no help to another that may not.
    for pod, code in codes:
        if code == EXIT_PERMANENT:
            words = pods.last_words(api, pod)
            raise StageFailed(f"the pods cannot use the devices\n{words}")
    # A pod is Pending until its init containers have ended.
    if any(code == 0 or pod.status.phase == "Running" for pod, code in codes):
        return None
    for pod, _ in codes:
        if pod.status.phase == "Pending":
            return f"{pod.metadata.name} is to open its devices: {pods.reason(api, pod)}"
    return None


def not_ready(api: Api, selector: str) -> Iterator[str]:
    """Why each pod that is not ready is not."""
    for pod in cluster.pods(api, selector):
        if reason := pods.reason(api, pod):
            yield f"{pod.metadata.name}: {reason}"


def why_no_nodes(api: Api, group: Group) -> Iterator[str]:
    """Yields why EKS and Auto Scaling bring no nodes. Raises StageFailed for what does not pass."""
    _check_joining(api, group)
    failures = nodes.failures(group)
    for reason in failures:
        if any(word in reason for word in _NEVER):
            raise StageFailed(f"the {group.kind} nodes cannot start: {reason}")
    for reason in (*failures, *group.issues):
        yield f"no node yet: {reason}"


def _check_joining(api: Api, group: Group) -> None:
    """Raises StageFailed if an instance runs for long and is not a ready node."""
    ready = {_instance(node) for node in _ready(group.deployment, api, group.kind)}
    if not (missing := sorted(group.in_service - ready)):
        return
    filters = [{"Name": "instance-id", "Values": missing}]
    listed = group.deployment.client("ec2").describe_instances(Filters=filters)
    for reservation in listed["Reservations"]:
        for instance in reservation["Instances"]:
            if instance["LaunchTime"] < nodes.now() - _JOINING:
                raise StageFailed(
                    f"{instance['InstanceId']} of the {group.kind} nodes runs for more than "
                    f"{_JOINING.seconds // 60} minutes and is not a ready node: look "
                    "for the add-ons vpc-cni and kube-proxy, for a way out of its subnet (NAT "
                    "gateway or endpoints), and for an access entry of the nodes' role"
                )


def _ready(deployment: Deployment, api: Api, kind: Kind) -> list[V1Node]:
    """Nodes of a group that pods can be placed on."""
    label = node_label(deployment.experiment, kind)
    listed = CoreV1Api(api).list_node(label_selector=f"{NODE_GROUP_LABEL}={label}").items
    return [node for node in listed if cluster.condition(node, "Ready")]


def _instance(node: V1Node) -> str:
    """Its id, from ``aws:///us-east-2b/i-0123``."""
    return str(node.spec.provider_id).rpartition("/")[2]


def are_stopped(deployment: Deployment) -> bool:
    """Whether the Trainium nodes are to be 0 now, by hand or by their guard."""
    group = nodes.find(deployment, Kind.TRAINIUM)
    return group is None or not group.size


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
            for container, previous in pods.sources(pod):
                text = pods.log(api, pod, container, _LINES, previous=previous)
                before = ".previous" if previous else ""
                key = f"{folder}{pod.metadata.name}/{container}{before}.log"
                bucket.write(key, text.encode())
    return f"s3://{bucket.name}/{folder}"
