"""What a reviewer must see first of a change: warnings, and what a deploy does to the pods.

Pure: from the templates, costs and manifests of both sides, and what the CDK CLI says of them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, NamedTuple

from ruamel.yaml import YAML

API: Final = "The Kubernetes API is opened"
STAYS: Final = "Stacks stay until make destroy"
DESTROYED: Final = "Resources are destroyed"
REPLACED: Final = "Resources are replaced"
MAYBE: Final = "Resources may be replaced"
IAM: Final = "IAM changes"
GROUPS: Final = "Security groups change"
COST: Final = "Costs change, in USD a day while it runs"
KUBERNETES: Final = "The version of Kubernetes changes"
KINDS: Final = (API, STAYS, DESTROYED, REPLACED, MAYBE, IAM, GROUPS, COST, KUBERNETES)
"""Of warnings, in their order. The workflow that comments takes no other."""

_TAILS: Final = {"destroy": DESTROYED, "replace": REPLACED, "may be replaced": MAYBE}
"""What the CDK CLI writes behind a resource."""
_TITLES: Final = {
    "IAM Statement Changes": IAM,
    "IAM Policy Changes": IAM,
    "Security Group Changes": GROUPS,
}
_RESOURCE: Final = re.compile(rf"^\[[-~]\] (.+?) ({'|'.join(_TAILS)})$", re.MULTILINE)
_GRAPH: Final = re.compile(r'compiled/([^/"\s]+)/')
"""The prefix of a compiled artifact in the bucket, wherever a manifest names it."""
_DIGEST: Final = re.compile("-[0-9a-f]{8}$")
"""The end of a Job's or Pod's name. Neither can be changed: another specification is another."""

Manifest = Mapping[str, Any]
Objects = Mapping[tuple[str, str], Manifest]
"""By kind and name, of Jobs and Pods without their digest."""
Templates = Mapping[str, Mapping[str, Any]]
"""By stack."""
Costs = Mapping[str, tuple[str, float]]
"""Of each part: how many of what, and USD an hour."""


class Warned(NamedTuple):
    """A warning: one of ``KINDS``, and what it is about."""

    kind: str
    detail: str


class Row(NamedTuple):
    """A pod, or a maker of pods, and what a deploy does to it."""

    kind: str
    name: str
    effect: str


def warnings(
    old: Templates, new: Templates, texts: Mapping[str, str], costs: Sequence[Costs | None]
) -> Iterator[Warned]:
    """Of all stacks, of which ``texts`` has the CLI's differences; ``costs`` of both sides."""
    before, after = (_resources(side, "AWS::EKS::Cluster") for side in (old, new))
    for key, properties in after.items():
        opened = _opened(before.get(key, {}), properties)
        yield from (Warned(API, f"{key}: {detail}") for detail in opened)
    yield from (Warned(STAYS, name) for name in old if name not in new)
    for name, text in texts.items():
        for resource, tail in _RESOURCE.findall(text):
            yield Warned(_TAILS[tail], f"{name}: {resource}")
        yield from {Warned(kind, name): None for title, kind in _TITLES.items() if title in text}
    yield from (Warned(COST, detail) for detail in _cost(*costs))
    yield from (Warned(KUBERNETES, detail) for detail in _versions(old, new))


def _resources(templates: Templates, kind: str) -> dict[str, dict[str, Any]]:
    return {
        f"{stack}/{name}": resource.get("Properties", {})
        for stack, template in templates.items()
        for name, resource in template.get("Resources", {}).items()
        if resource["Type"] == kind
    }


def _opened(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Which addresses reach the API, and did not. EKS opens to all by default."""
    old, new = (side.get("ResourcesVpcConfig", {}) for side in (before, after))
    was_public = bool(before) and old.get("EndpointPublicAccess", True)
    if not new.get("EndpointPublicAccess", True):
        return
    known = old.get("PublicAccessCidrs", ["0.0.0.0/0"]) if was_public else []
    added = [
        block for block in new.get("PublicAccessCidrs", ["0.0.0.0/0"]) if not _covered(block, known)
    ]
    if added:
        public = "" if was_public else "EndpointPublicAccess false -> true, "
        yield f"{public}PublicAccessCidrs + {', '.join(map(str, added))}"


def _covered(block: Any, known: Iterable[Any]) -> bool:
    if not isinstance(block, str):
        return block in known
    networks = [ip_network(each) for each in known if isinstance(each, str)]
    wanted = ip_network(block)
    return any(n.version == wanted.version and wanted.subnet_of(n) for n in networks)  # type: ignore[arg-type]


def _cost(before: Costs | None, after: Costs | None) -> Iterator[str]:
    if before is None or after is None or before == after:
        return
    nothing = ("none", 0.0)
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, nothing), after.get(name, nothing)
        if old != new:
            yield f"{name}: {old[0]} {24 * old[1]:.2f} -> {new[0]} {24 * new[1]:.2f}"
    totals = [24 * sum(usd for _, usd in side.values()) for side in (before, after)]
    yield "all that ever runs at once: {:.2f} -> {:.2f}".format(*totals)


def _versions(old: Templates, new: Templates) -> Iterator[str]:
    """The change of a cluster's version, and the version of each node group beside it."""
    before, after = (_resources(side, "AWS::EKS::Cluster") for side in (old, new))
    changed = {
        key: (before[key]["Version"], properties["Version"])
        for key, properties in after.items()
        if key in before and before[key].get("Version") != properties.get("Version")
    }
    yield from (f"{key}: {' -> '.join(pair)}" for key, pair in changed.items())
    groups = [_resources(side, "AWS::EKS::Nodegroup") for side in (old, new)]
    target = next((version for _, version in changed.values()), None)
    for key, properties in groups[1].items():
        versions = [_kubelet(side.get(key, {})) for side in (groups[0], {key: properties})]
        if target is None and (key not in groups[0] or versions[0] == versions[1]):
            continue
        if versions[1] is None:
            yield f"{key}: names no version, so its nodes keep their kubelet"
        elif target and not f"{versions[1]}.".startswith(f"{target}."):
            yield f"{key}: nodes stay on kubelet {versions[1]}"
        else:
            yield f"{key}: nodes {versions[0] or 'of no named version'} -> {versions[1]}"


def _kubelet(properties: Mapping[str, Any]) -> str | None:
    version = properties.get("ReleaseVersion", properties.get("Version"))
    return None if version is None else str(version)


def read(folder: Path) -> Objects:
    """The objects of ``*.k8s.yaml``."""
    yaml, objects = YAML(typ="safe", pure=True), {}
    for file in sorted(folder.glob("*.k8s.yaml")):
        for manifest in filter(None, yaml.load_all(file)):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            objects[kind, _DIGEST.sub("", name) if kind in ("Job", "Pod") else name] = manifest
    return objects


def restarts(old: Objects, new: Objects) -> Iterator[Row]:
    """A row for each pod, or maker of pods, that a deploy starts, replaces or ends."""
    ready = _graphs(old.values())
    compiled = _graphs(manifest for (kind, _), manifest in new.items() if kind == "Job")
    for kind, name in dict.fromkeys([*new, *old]):
        if kind not in ("Deployment", "Job", "Pod"):
            continue
        before, after = old.get((kind, name)), new.get((kind, name))
        effect = ""
        if before is None or after is None:
            effect = "starts" if before is None else "ends"
        elif kind == "Pod":
            # It runs once. Kubernetes lets only its image be changed: another has another name.
            specs = [json.dumps(pod["spec"]) for pod in (before, after)]
            settings = [side.get(("ConfigMap", name), {}).get("data") for side in (old, new)]
            if before["metadata"]["name"] != after["metadata"]["name"]:
                effect = "is replaced: ends a measurement that runs, and begins a new one"
            elif specs[0] != specs[1]:
                effect = "restarts with another image, if it still runs"
            elif settings[0] != settings[1]:
                effect = "is configured anew: the next make experiment begins a new run"
        elif kind == "Job" and before["metadata"] != after["metadata"]:
            effect = "runs again"  # its name has the digest of its specification
        elif kind == "Deployment" and before["spec"]["template"] != after["spec"]["template"]:
            effect = "restarts"
        if kind == "Deployment" and after is not None and effect:
            missing = _graphs([after]) - ready
            by_itself = ", once its graph is compiled" if missing & compiled else ", and compiles"
            effect += by_itself if missing else ", its graph is there"
        if effect:
            yield Row(kind, name, effect)


def _graphs(manifests: Iterable[Manifest]) -> set[str]:
    return set(_GRAPH.findall(json.dumps([*manifests])))
