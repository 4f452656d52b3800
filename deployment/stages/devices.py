"""Whether the user of the pods with a claim may open its devices."""

from __future__ import annotations

from typing import NamedTuple

from kubernetes.client import ApiClient, V1Pod

from charts.indexes import NEVER
from charts.names import DEVICES
from deployment.cluster import kubernetes_in_words
from deployment.reasons import explained
from deployment.stages import objects


class Closed(NamedTuple):
    """Devices that no pod has opened yet."""

    reason: str
    final: bool
    """Whether their user may not open them: neither a graph nor a service is worth the nodes."""


def closed(api: ApiClient) -> Closed | None:
    """None once a pod has opened its devices, or where no pod is going to.

    Raises DeploymentError.
    """
    pods = [
        (pod, _exit_code(pod))
        for pod in objects.pods(api, "")
        if any(each.name == DEVICES for each in pod.spec.init_containers or [])
    ]
    # Before all others: devices that one pod has opened are no help to another that may not.
    if refused := next((pod for pod, code in pods if code == NEVER), None):
        return Closed(objects.last_words(api, refused), final=True)
    # A pod is Pending until its init containers have ended.
    if any(code == 0 or pod.status.phase == "Running" for pod, code in pods):
        return None
    waiting = next((pod for pod, _ in pods if pod.status.phase == "Pending"), None)
    if waiting is None:
        return None
    with kubernetes_in_words():
        reason = explained(api, waiting)
    return Closed(f"{waiting.metadata.name} is to open its devices: {reason}", final=False)


def _exit_code(pod: V1Pod) -> int | None:
    """What the container ended with last."""
    for status in pod.status.init_container_statuses or []:
        if status.name == DEVICES:
            for state in (status.state, status.last_state):
                if state and state.terminated:
                    code: int = state.terminated.exit_code
                    return code
    return None
