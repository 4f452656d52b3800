"""What a deploy does to the pods that run, read off the manifests of both sides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scripts.diff.manifests import Objects

_GRAPH: Final = re.compile(r'compiled/([^/"\s]+)/')
"""The prefix of a compiled artifact in the bucket, wherever a manifest names it."""
_CHECKPOINT: Final = re.compile(r'=models/([^"\s]+?/[0-9a-f]{40})/')
"""Organisation, name and revision."""
_DIGEST: Final = re.compile("-[0-9a-f]{8}$")
"""The end of a Job's name. A Job cannot be changed: another specification is another Job."""

Manifest = Mapping[str, Any]


def consequences(old: Objects, new: Objects) -> Iterator[str]:
    """A sentence each, for a cluster that has the ``old`` objects and gets the ``new`` ones."""
    there = _graphs(old)
    yield from _deployments(old, new, there)
    yield from _jobs(old, new, there)
    yield from _pods(old, new)
    changed = [
        name
        for kind, name in dict.fromkeys([*new, *old])
        if kind == "NetworkPolicy" and old.get((kind, name)) != new.get((kind, name))
    ]
    if changed:
        yield f"who may reach whom changes at once: {', '.join(changed)}"


def _graphs(found: object) -> set[str]:
    """Keys of the compiled artifacts that are named in it."""
    values = [*found.values()] if isinstance(found, Mapping) else found
    return set(_GRAPH.findall(json.dumps(values)))


def _deployments(old: Objects, new: Objects, there: set[str]) -> Iterator[str]:
    compiled = _graphs([its for (kind, _), its in new.items() if kind == "Job"])
    for (kind, name), after in new.items():
        if kind != "Deployment":
            continue
        before, graphs = old.get((kind, name)), _graphs(after)
        missing = graphs - there
        if before is None:
            yield f"{name} is new: it starts {_once(missing, compiled)}"
        elif before["spec"]["template"] != after["spec"]["template"]:
            yield _restart(name, after, missing, compiled)
        elif before["spec"] != after["spec"]:
            yield f"{name} changes and does not restart"
    for kind, name in (key for key in old if key not in new):
        if kind == "Deployment":
            yield f"{name} ends, and its devices are free"


def _once(missing: set[str], compiled: set[str]) -> str:
    if not missing:
        return "at once, its graph is there"
    if missing & compiled:
        return "once its graph is compiled"
    return "and compiles on its own devices"


def _restart(name: str, after: Manifest, missing: set[str], compiled: set[str]) -> str:
    """How a service gets from one pod to the next."""
    if not missing:
        return f"{name} restarts, its graph is there"
    if not missing & compiled:
        return f"{name} restarts and compiles on its own devices, at its first start"
    if after["spec"].get("strategy", {}).get("type") == "Recreate":
        return f"{name} is down while its graph compiles"
    return f"{name} restarts once its graph is compiled, and answers until then"


def _jobs(old: Objects, new: Objects, there: set[str]) -> Iterator[str]:
    before, after = _by_prefix(old), _by_prefix(new)
    compiling = {
        prefix: _graphs(its)
        for prefix, its in after.items()
        if _step(its) == "compile"
        if before.get(prefix) != its
    }
    fresh = sorted({graph for graphs in compiling.values() for graph in graphs - there})
    if fresh:
        which = "a graph is" if len(fresh) == 1 else f"{len(fresh)} graphs are"
        yield f"{which} compiled: {', '.join(fresh)}"
    for prefix, its in after.items():
        if before.get(prefix) == its or (prefix in compiling and compiling[prefix] - there):
            continue
        if prefix in compiling:
            yield f"{prefix} runs again and finds its graph"
        elif _step(its) == "download":
            yield _download(before.get(prefix), its)
        else:
            yield f"the Job {prefix} {'runs again' if prefix in before else 'is new'}"
    for prefix in (prefix for prefix in before if prefix not in after):
        yield f"the Job {prefix} is removed"


def _by_prefix(found: Objects) -> dict[str, Manifest]:
    return {_DIGEST.sub("", name): its for (kind, name), its in found.items() if kind == "Job"}


def _step(job: Manifest) -> str | None:
    labels: Mapping[str, str] = job["metadata"].get("labels", {})
    return labels.get("step")


def _download(before: Manifest | None, after: Manifest) -> str:
    had, wanted = (dict.fromkeys(_CHECKPOINT.findall(json.dumps(its))) for its in (before, after))
    if fetched := [its.rpartition("/")[0] for its in wanted if its not in had]:
        return f"the download Job runs again and fetches {', '.join(fetched)}"
    return "the download Job runs again and finds all there"


def _pods(old: Objects, new: Objects) -> Iterator[str]:
    """Bare pods, which run once. Kubernetes lets only their image be changed."""
    for (kind, name), after in new.items():
        before = old.get((kind, name))
        if kind != "Pod":
            continue
        if before is None:
            yield f"{name} is new: it runs as soon as what it waits for is there"
            continue
        if _images(before) != _images(after):
            yield f"{name} restarts with another image, if it still runs"
        if _without_images(before) != _without_images(after):
            yield f"the benchmark pod {name} keeps its specification: a new run needs AGAIN=1"
        if old.get(("ConfigMap", name)) != new.get(("ConfigMap", name)):
            yield f"{name} is told something else: the next make experiment begins a new run"
        elif _served(old) != _served(new):
            yield f"{name} is told the same: a run that is complete is measured anew by AGAIN=1"
    for kind, name in (key for key in old if key not in new):
        if kind == "Pod":
            yield f"{name} ends; its results stay in the bucket"


def _served(found: Objects) -> list[Any]:
    """The pods of all services."""
    return [its["spec"]["template"] for (kind, _), its in found.items() if kind == "Deployment"]


def _containers(its: Manifest) -> list[Manifest]:
    spec = its["spec"].get("template", its)["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


def _images(pod: Manifest) -> list[str]:
    return [container["image"] for container in _containers(pod)]


def _without_images(pod: Manifest) -> list[Any]:
    spec = {key: its for key, its in pod["spec"].items() if "ontainers" not in key}
    return [spec, [{**container, "image": None} for container in _containers(pod)]]
