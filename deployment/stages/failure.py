"""What a failed stage leaves: the logs of all pods in the bucket, and no node."""

from __future__ import annotations

import datetime
from typing import Final

from charts.names import LOGS_PREFIX
from deployment import guard, nodes
from deployment.cluster import connected
from deployment.errors import DeploymentError
from deployment.logs import sources
from deployment.place import Place
from deployment.stages import objects
from deployment.stages.store import Store

_LINES: Final = 100_000
"""Of each container, the last ones."""


def end_nodes(place: Place) -> str:
    """Keeps the logs, then scales both groups to 0; returns what was done, a line each.

    Raises DeploymentError where there is neither group.
    """
    kinds = [group.kind for group in nodes.groups(place)]
    if not kinds:
        raise DeploymentError("there are no nodes to end")
    lines = [_logs_kept(place)]
    for kind in kinds:
        try:
            guard.stop(place, kind)
            lines.append(f"{kind} nodes: scaled to 0 (capacity.after_failure)")
        except DeploymentError as error:  # the other group is to end all the same
            lines.append(f"{kind} nodes: {error}")
    return "\n".join(lines)


def _logs_kept(place: Place) -> str:
    try:
        return f"logs of all pods: {_keep_logs(place)}"
    except DeploymentError as error:
        return f"logs are not kept: {error}"


def _keep_logs(place: Place) -> str:
    """Puts what each container has written, and its last start before, into the bucket."""
    store = Store(place)
    folder = f"{LOGS_PREFIX}{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}/"
    with connected(place) as api:
        for pod in objects.pods(api, ""):
            for source in sources(pod):
                text = objects.log(api, pod, source.container, _LINES, previous=source.previous)
                before = ".previous" if source.previous else ""
                key = f"{folder}{source.pod}/{source.container}{before}.log"
                store.write(key, text.encode())
    return f"s3://{store.bucket}/{folder}"
