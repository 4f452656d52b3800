"""The stacks that an account has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from deployment.account import client, in_words
from deployment.lifecycle import regions
from deployment.place import Place

TAG: Final = "Experiment"
"""Key of the tag that ``app.py`` gives to every stack."""


@dataclass(frozen=True)
class Stack:
    """A stack that is there."""

    name: str
    region: str
    status: str
    reason: str | None
    """CloudFormation's own words, if it has any."""
    label: str
    """Its name without the experiment's."""


def of(place: Place) -> list[Stack]:
    """Those of the experiment, the oldest first. Raises DeploymentError."""
    found = [
        (
            stack["CreationTime"],
            Stack(
                stack["StackName"],
                region,
                stack["StackStatus"],
                stack.get("StackStatusReason"),
                stack["StackName"].removeprefix(f"{place.name}-"),
            ),
        )
        for region in sorted(regions(place.experiment))
        for stack in everything(region)
        if belongs_to(stack) == place.name
    ]
    return [stack for _, stack in sorted(found, key=lambda pair: pair[0])]


def begins_with(place: Place, prefix: str) -> bool:
    """Whether any stack's name begins so. Asking is quicker than synthesis.

    Raises DeploymentError.
    """
    return any(
        stack["StackName"].startswith(prefix)
        for region in regions(place.experiment)
        for stack in everything(region)
    )


def experiments(region: str) -> set[str]:
    """Names of the experiments that have stacks in ``region``. Raises DeploymentError."""
    return {name for stack in everything(region) if (name := belongs_to(stack))}


def belongs_to(stack: dict[str, Any]) -> str | None:
    """The experiment of a stack, by its tag."""
    return next((tag["Value"] for tag in stack.get("Tags", []) if tag["Key"] == TAG), None)


def everything(region: str) -> list[dict[str, Any]]:
    """All stacks of a region, as CloudFormation describes them. Raises DeploymentError."""
    with in_words():
        pages = client("cloudformation", region).get_paginator("describe_stacks").paginate()
        return [stack for page in pages for stack in page["Stacks"]]
