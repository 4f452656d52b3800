"""What still runs, what it costs, and how to go on: the last screen of a way that was left."""

from __future__ import annotations

from collections.abc import Iterator

from deployment import guard, nodes
from deployment.cluster import NoCluster, connected
from deployment.errors import DeploymentError
from deployment.nodes import Group
from deployment.place import Place
from deployment.spent import spent
from deployment.stages import objects


def screen(place: Place, again: bool = False) -> Iterator[str]:
    """Lines for a person. What cannot be asked is said to be unknown; raises nothing of its own.

    Whoever ends a part that takes long still gets the rest.
    """
    yield "What stands:"
    for part, told in ((_nodes, "nodes"), (_pods, "pods"), (_costs, "costs")):
        try:
            yield from (f"  {line}" for line in part(place))
        except DeploymentError as error:
            yield f"  {told}: not known ({error})"
        except KeyboardInterrupt:
            yield f"  {told}: not asked"
    named = f"EXPERIMENT={place.file}"
    yield f"To go on:         make experiment {named}{' AGAIN=1' if again else ''}"
    if again:
        yield "                  (AGAIN=1 measures anew: leave it out to take what is complete)"
    yield f"To end the nodes: make stop {named}"
    yield f"To remove all:    make destroy {named}"


def _nodes(place: Place) -> Iterator[str]:
    found = nodes.groups(place)
    if not any(group.size for group in found):
        yield "no Trainium node and no compile node"
    for group in found:
        if group.size:
            yield from _of_group(place, group)


def _of_group(place: Place, group: Group) -> Iterator[str]:
    guarded = guard.find(place, group.kind)
    ends = (
        f"the guard scales them to 0 at {guarded.at:%Y-%m-%d %H:%M} UTC, in {guarded.hours:.1f} h"
        if guarded
        else "the guard is ending them: it asks EKS every 10 minutes"
        if guard.is_acting(place, group.kind)
        else "NO GUARD ends them"
    )
    yield f"{group.kind} nodes: {group.size}; {ends}"


def _pods(place: Place) -> Iterator[str]:
    try:
        with connected(place) as api:
            jobs = [job for job in objects.jobs(api, "") if job.status.active]
            pods = [pod for pod in objects.pods(api, "") if pod.status.phase == "Running"]
    except NoCluster as error:
        yield str(error)
        return
    if jobs:
        yield f"Jobs under way: {', '.join(job.metadata.name for job in jobs)}"
    yield f"pods that run: {', '.join(pod.metadata.name for pod in pods) or 'none'}"


def _costs(place: Place) -> Iterator[str]:
    found = spent(place)
    yield f"{found.amount} so far; {found.usd_per_hour:.2f} USD an hour as it stands:"
    for part in found.parts:
        if part.now:
            yield f"  {part.standing}: {part.usd_per_hour:.2f} USD an hour"
