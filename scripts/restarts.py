"""Which pods a deploy replaces: one table, read off the manifests of both sides."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ruamel.yaml import YAML

_GRAPH: Final = re.compile(r'compiled/([^/"\s]+)/')
"""The prefix of a compiled artifact in the bucket, wherever a manifest names it."""
_DIGEST: Final = re.compile("-[0-9a-f]{8}$")
"""The end of a Job's name. A Job cannot be changed: another specification is another Job."""

Manifest = Mapping[str, Any]
Objects = Mapping[tuple[str, str], Manifest]
"""By kind and name, of Jobs without their digest."""


class Restart(NamedTuple):
    """A row of the table."""

    kind: str
    name: str
    effect: str


def read(folder: Path) -> Objects:
    """The objects of ``*.k8s.yaml``."""
    yaml, objects = YAML(typ="safe", pure=True), {}
    for file in sorted(folder.glob("*.k8s.yaml")):
        for manifest in filter(None, yaml.load_all(file)):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            objects[kind, _DIGEST.sub("", name) if kind == "Job" else name] = manifest
    return objects


def restarts(old: Objects, new: Objects) -> list[Restart]:
    """A row for each pod, or maker of pods, that a deploy starts, replaces or ends."""
    ready = _graphs(old.values())
    compiled = _graphs(manifest for (kind, _), manifest in new.items() if kind == "Job")
    rows = []
    for kind, name in dict.fromkeys([*new, *old]):
        before, after = old.get((kind, name)), new.get((kind, name))
        if kind not in ("Deployment", "Job", "Pod"):
            continue
        if before is None:
            effect = "starts"
        elif after is None:
            effect = "ends"
        elif kind == "Pod":
            configurations = [each.get(("ConfigMap", name), {}).get("data") for each in (old, new)]
            effect = _of_pod(
                before, after, is_configured_anew=configurations[0] != configurations[1]
            )
        elif kind == "Job":
            # Its name has the digest of its specification.
            effect = "runs again" if before["metadata"] != after["metadata"] else ""
        else:
            is_replaced = before["spec"]["template"] != after["spec"]["template"]
            effect = "restarts" if is_replaced else ""
        if kind == "Deployment" and after is not None and effect:
            effect += _wait(_graphs([after]) - ready, compiled)
        if effect:
            rows.append(Restart(kind, name, effect))
    return rows


def _of_pod(before: Manifest, after: Manifest, *, is_configured_anew: bool) -> str:
    """Of a bare pod, which runs once. Kubernetes lets only its image be changed."""
    (images, spec), (new_images, new_spec) = _without_images(before), _without_images(after)
    if images != new_images and spec == new_spec:
        return "restarts with another image, if it still runs"
    if before["spec"] != after["spec"]:
        return "keeps its specification: a new run needs AGAIN=1"
    if is_configured_anew:
        return "is told something else: the next make experiment begins a new run"
    return ""


def _without_images(pod: Manifest) -> tuple[list[str], Any]:
    """A pod's images, and its specification without them."""
    spec = copy.deepcopy(pod["spec"])
    containers = (*spec.get("initContainers", ()), *spec["containers"])
    return [container.pop("image") for container in containers], spec


def _wait(missing: set[str], compiled: set[str]) -> str:
    """What a service waits for."""
    if not missing:
        return ", its graph is there"
    if missing & compiled:
        return ", once its graph is compiled"
    return ", and compiles on its own devices"


def _graphs(manifests: Any) -> set[str]:
    """Keys of the compiled artifacts that are named in them."""
    return set(_GRAPH.findall(json.dumps([*manifests])))


def table(rows: Sequence[Restart]) -> str:
    """For a terminal."""
    if not rows:
        return "Pods: none is replaced"
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = (f"  {kind:<{widths[0]}}  {name:<{widths[1]}}  {text}" for kind, name, text in rows)
    return "\n".join(["Pods that are replaced", *lines])


def markdown(rows: Sequence[Restart]) -> str:
    """For a comment."""
    if not rows:
        return "No pod is replaced."
    lines = (f"| {kind} | {name} | {effect} |" for kind, name, effect in rows)
    return "\n".join(["| Pods of | | What a deploy does |", "| --- | --- | --- |", *lines])
