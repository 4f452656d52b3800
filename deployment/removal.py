"""Removes an experiment from its account, and says before what stays and what that costs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from deployment import guard, lifecycle, nodes, stack
from deployment.errors import DeploymentError
from deployment.kept import Kept, images, kept, remove
from deployment.lifecycle import ASSEMBLY, Stack, say
from deployment.place import Place


class Keep(StrEnum):
    """What outlives the stacks."""

    RESULTS = "results"
    """The bucket, which has the checkpoints and graphs as well, and the logs."""
    NONE = "none"


@dataclass(frozen=True)
class Wanted:
    """What the user has said."""

    yes: bool
    """Not to be asked about the stacks."""
    keep: Keep
    name: str | None
    """The experiment's, if it was given instead of being asked for."""


def destroy(place: Place, wanted: Wanted) -> int:
    """Deletes the stacks that exist, and no others; returns the CLI's exit status.

    It first says what it found, what stays and what that costs, and asks. The nodes go first,
    because the rest takes long. Raises DeploymentError, also if there is nothing to delete.
    """
    say(f"{place.headline}: looking for its stacks")
    everything = wanted.keep is Keep.NONE
    if not everything and not stack.begins_with(place, f"{place.name}-"):
        raise _nothing(place)
    _refuse_without_terminal(place, wanted)
    stacks = lifecycle.synthesised(place)
    there = [each.name for each in stacks if each.status]
    stays = kept(place, ASSEMBLY, [each.name for each in stacks])
    if not there and not (everything and stays):
        raise _nothing(place)
    _say_stacks(stacks)
    _say_kept(place, stays, everything=everything)
    if not _agreed(place, wanted):
        say("nothing was deleted")
        return 1
    if there:
        _stop(place)
        # It has been asked above, with more to go by than the CLI has.
        status = lifecycle.cdk(
            "destroy", "--app", str(ASSEMBLY), *there, "--exclusively", "--force"
        )
        if status:
            return status
    if everything:
        for each in stays:
            remove(place, each)
            say(f"  {each.name} is deleted")
    return 0


def _refuse_without_terminal(place: Place, wanted: Wanted) -> None:
    if wanted.name is not None and wanted.name != place.name:
        raise DeploymentError(
            f"NAME = {wanted.name!r}: the experiment is {place.name}: nothing was deleted"
        )
    if sys.stdin.isatty():
        return
    if not wanted.yes:
        raise DeploymentError("there is no terminal to ask on; YES=1 deletes without asking")
    if wanted.keep is Keep.NONE and wanted.name is None:
        raise DeploymentError(
            f"there is no terminal to ask on; KEEP=none wants NAME={place.name} as well as YES=1"
        )


def _agreed(place: Place, wanted: Wanted) -> bool:
    """Whether the user wants it. Checkpoints, graphs and results are worth a typed name."""
    if wanted.keep is Keep.NONE:
        return (
            wanted.name == place.name
            or _answer(
                f"All of it goes for good. Type the experiment's name, {place.name}, to delete it: "
            )
            == place.name
        )
    return wanted.yes or _answer("Delete these stacks (y/n)? ") in ("y", "yes")


def _answer(question: str) -> str:
    try:
        return input(question).strip()
    except EOFError:
        return ""


def _say_stacks(stacks: Iterable[Stack]) -> None:
    every = [*stacks]
    width = max(len(each.name) for each in every)
    for each in every:
        what = f"will be deleted ({each.status})" if each.status else "not there"
        say(f"  {each.name:{width}}  {each.region}  {what}")


def _say_kept(place: Place, stays: Iterable[Kept], *, everything: bool) -> None:
    for each in stays:
        does = "will be deleted for good" if everything else "stays; make deploy takes it back"
        say(f"  {each.name} ({each.size}, {each.cost}) {does}")
    for each in images(place):
        say(f"  {each.name} ({each.size}, {each.cost}) stays: it belongs to the CDK's bootstrap")


def _stop(place: Place) -> None:
    """Scales all groups to 0: a deletion that fails half-way must leave no node behind."""
    for group in nodes.groups(place):
        # EKS changes no size then, and the deletion takes the nodes.
        if group.status != "DELETE_FAILED" and guard.stop(place, group.kind):
            say(f"  {group.kind} nodes: to 0")


def _nothing(place: Place) -> DeploymentError:
    found = {
        name for region in lifecycle.regions(place.experiment) for name in stack.experiments(region)
    }
    others = ", ".join(sorted(found - {place.name}))
    return DeploymentError(
        f"nothing of experiment {place.name} is in account {place.account}, "
        f"{place.region}: nothing was deleted. "
        + (f"There are stacks of: {others}" if others else "No experiment has stacks there")
    )
