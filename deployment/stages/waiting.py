"""Why something is not ready yet, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubernetes.client import ApiClient

from deployment import nodes
from deployment.cluster import kubernetes_in_words
from deployment.nodes import Group, Kind
from deployment.place import Place
from deployment.reasons import explained
from deployment.stages import objects
from deployment.stages.stage import StageFailed

_NEVER: Final = ("VcpuLimitExceeded", "InstanceLimitExceeded", "Unsupported")
"""What Auto Scaling tries in vain, however long one waits: a quota, or a type that is not sold."""


def not_ready(api: ApiClient, selector: str) -> Iterator[str]:
    """A part of a sentence for each pod that is not ready. Raises DeploymentError."""
    for pod in objects.pods(api, selector):
        with kubernetes_in_words():
            reason = explained(api, pod)
        if reason:
            yield f"{pod.metadata.name}: {reason}"


def why_no_nodes(place: Place, group: Group | None) -> Iterator[str]:
    """What EKS and Auto Scaling say of nodes that do not come.

    Raises StageFailed for what stays as it is.
    """
    if group is None:
        return
    failures = nodes.failures(place, group)
    for reason in failures:
        if any(word in reason for word in _NEVER):
            raise StageFailed(f"the {group.kind} nodes cannot start: {reason}")
    for reason in (*failures, *group.issues):
        yield f"no node yet: {reason}"


def nodes_are_gone(place: Place) -> bool:
    """Whether the Trainium nodes are to be 0 now, by hand or by their guard."""
    group = nodes.find(place, Kind.TRAINIUM)
    return group is None or not group.size
