"""What AWS knows of an experiment without its cluster: stacks, groups, guard, results, cost."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from deployment import guard, nodes, results, stack
from deployment.nodes import Kind
from deployment.place import Place
from deployment.spent import spent
from deployment.status.screen import Row

_READY: Final = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"})
_SHOWN_RUNS: Final = 3


def stacks(place: Place) -> Iterator[Row]:
    """Those that are there: the ones that are complete in one row, each other in its own.

    Raises DeploymentError.
    """
    there = stack.of(place)
    if not there:
        yield Row("", "nothing is deployed")
        return
    ready = [each.label for each in there if each.status in _READY]
    if ready:
        yield Row("", f"{', '.join(ready)}: complete")
    for each in there:
        if each.status not in _READY:
            reason = f": {each.reason}" if each.reason else ""
            yield Row("", f"{each.label}: {each.status}{reason}")


def groups(place: Place) -> Iterator[Row]:
    """The node groups that EKS knows, for who cannot reach the cluster. Raises DeploymentError."""
    for group in nodes.groups(place):
        yield Row(group.kind.value, f"{group.size} asked for, at most {group.maximum}")
        yield from troubles(place, group)


def troubles(place: Place, group: nodes.Group) -> Iterator[Row]:
    """What keeps a group from its size. Raises DeploymentError."""
    if group.status not in ("ACTIVE", "UPDATING"):
        yield Row(group.kind.value, f"EKS: {group.status}")
    if group.size:
        for trouble in (*nodes.failures(place, group), *group.issues):
            yield Row(group.kind.value, trouble)


def guards(place: Place) -> Iterator[Row]:
    """When what stands is scaled to 0, whatever happens. Raises DeploymentError."""
    sizes = {group.kind: group.size for group in nodes.groups(place)}
    for kind in Kind:
        if its := guard.find(place, kind):
            left = duration(its.at - datetime.datetime.now(datetime.UTC))
            yield Row(kind.value, f"to 0 at {moment(its.at)}, in {left}")
        elif sizes.get(kind) and guard.is_acting(place, kind):
            yield Row(kind.value, "is ending them: it asks EKS every 10 minutes")
        elif sizes.get(kind):
            yield Row(kind.value, "none: its nodes stand until `make stop EXPERIMENT=...`")


def runs(place: Place) -> Iterator[Row]:
    """The newest in the bucket. Raises DeploymentError."""
    here = results.listing(place)
    every = here.runs
    for run in every[-_SHOWN_RUNS:]:
        state = "complete" if run.complete else "not complete"
        yield Row(run.id[:8] if len(run.id) == 36 else run.id, f"{state}, {moment(run.changed)}")
    if len(every) > _SHOWN_RUNS:
        yield Row("", f"and {len(every) - _SHOWN_RUNS} earlier: make results EXPERIMENT=...")
    if here.refusal:
        yield Row("", here.refusal)


def cost(place: Place) -> Iterator[Row]:
    """So far, and an hour. Raises DeploymentError."""
    found = spent(place)
    if found.since is None:
        yield Row("", "nothing stands")
        return
    yield Row(
        "",
        f"{found.amount} since {moment(found.since)}; as it stands "
        f"{found.usd_per_hour:.2f} USD an hour",
    )
    for part in found.parts:
        if part.hours:
            yield Row(str(part.standing), f"{part.usd:.2f} USD: {part.formula}")


def moment(when: datetime.datetime) -> str:
    """A time in UTC: of today without the date."""
    when = when.astimezone(datetime.UTC)
    today = when.date() == datetime.datetime.now(datetime.UTC).date()
    return f"{when:%H:%M}" if today else f"{when:%Y-%m-%d %H:%M}"


def duration(time: datetime.timedelta) -> str:
    """Hours and minutes."""
    minutes = max(0, round(time.total_seconds() / 60))
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
