"""What happened in a rehearsed account: nodes that came and went, and what the bucket got."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Final

from charts.names import COMPILED_PREFIX, MODELS_PREFIX, NODE_GROUP_LABEL, bucket_name
from rehearsal.account.world import World

MARKER: Final = "_COMPLETE"
"""The last object of whatever is complete."""
_SYSTEM: Final = "system"

Moment = tuple[datetime.datetime, str]


def sizes(world: World) -> dict[str, list[tuple[datetime.datetime, int]]]:
    """The sizes that each node group was told to have, from the oldest on.

    By the value of the label of its nodes; ``system`` for those that have none.
    """
    eks, name = world.aws.client("eks"), world.experiment.name
    found: dict[str, list[tuple[datetime.datetime, int]]] = {}
    for group in world.aws.sizes():
        its = eks.describe_nodegroup(clusterName=name, nodegroupName=group["nodegroup"])
        label = its["nodegroup"].get("labels", {}).get(NODE_GROUP_LABEL, _SYSTEM)
        found[label] = [
            (datetime.datetime.fromisoformat(each["time"]), each["desired"])
            for each in group["sizes"]
        ]
    return found


def written(world: World, prefix: str) -> dict[str, datetime.datetime]:
    """When each object below a prefix of the bucket was written last, to the second."""
    bucket = bucket_name(world.experiment, world.aws.account)
    pages = world.aws.client("s3").get_paginator("list_objects_v2")
    found: list[dict[str, Any]] = [
        entry
        for page in pages.paginate(Bucket=bucket, Prefix=prefix)
        for entry in page.get("Contents", [])
    ]
    return {entry["Key"]: entry["LastModified"] for entry in found}


def told(world: World) -> list[str]:
    """A line for each thing that happened, in its order."""
    moments = sorted([*_sized(world), *_marked(world), *_played(world)])
    return [f"{time:%H:%M:%S}  {what}" for time, what in moments]


def _sized(world: World) -> Iterator[Moment]:
    for label, its in sizes(world).items():
        for time, size in its:
            yield time, f"{label} nodes: {size}"


def _marked(world: World) -> Iterator[Moment]:
    for prefix in (MODELS_PREFIX, COMPILED_PREFIX, "results/"):
        for key, time in written(world, prefix).items():
            if key.endswith(f"/{MARKER}"):
                yield time, f"in the bucket: {key.removesuffix(MARKER)}"


def _played(world: World) -> Iterator[Moment]:
    for pod in world.kubelets.record:
        yield datetime.datetime.fromisoformat(pod.at), f"pod {pod.name} on its node"
