"""Effects of a deploy that a reviewer must not overlook: warnings, and pods."""

import ipaddress
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

TITLES: Final = {
    "api": "The Kubernetes API is opened",
    "destroyed": "Resources are destroyed",
    "replaced": "Resources are replaced",
    "maybe-replaced": "Resources may be replaced",
    "orphaned": "Resources stay without a stack",
    "iam": "IAM changes",
    "security-groups": "Security groups change",
    "kubernetes": "Kubernetes changes",
    "cost": "Trainium nodes cost another amount",
}
"""Titles of warnings, by kind. The workflow that comments has the same."""

_IMPACTS: Final = {
    "destroy": "destroyed",
    "replace": "replaced",
    "may be replaced": "maybe-replaced",
    "orphan": "orphaned",
}
"""How the CDK CLI ends the line of a resource (aws-cdk 2.1148.1, ``formatImpact``)."""
_IMPACT: Final = re.compile(rf"^\[[-+~]\] (.+) ({'|'.join(_IMPACTS)})$", re.MULTILINE)
_SECURITY: Final = {
    "iam": ("IAM Statement Changes", "IAM Policy Changes"),
    "security-groups": ("Security Group Changes",),
}
_ROW: Final = re.compile(r"^│ ([-+ ]) │(.*)$", re.MULTILINE)
_HASH: Final = re.compile(r"\b[0-9a-f]{64}\b")
_DIGEST: Final = re.compile("-[0-9a-f]{8}$")
"""The end of a Job's and a Pod's name. Neither can be changed: another specification is another
object."""

Template = Mapping[str, Any]
Manifest = Mapping[str, Any]
Objects = Mapping[tuple[str, str], Manifest]
"""By kind and name, of Jobs and Pods without their digest."""


@dataclass(frozen=True)
class DiffWarning:
    """Something to look at first."""

    kind: str
    """A key of ``TITLES``."""
    detail: str


@dataclass(frozen=True)
class Effect:
    """The effect of a deploy on a pod, or on what makes pods."""

    kind: str
    name: str
    effect: str


def of_templates(old: Iterable[Template], new: Sequence[Template]) -> Iterator[DiffWarning]:
    """Warnings on the cluster: who reaches its API, and which version it has."""
    before, after = _cluster(old), _cluster(new)
    if after is None:
        return
    was_open = _open_to(before) if before else []
    opened = [str(block) for block in _open_to(after) if not any(map(block.subnet_of, was_open))]
    if opened:
        yield DiffWarning("api", f"to {', '.join(opened)}")
    if before and before["Version"] != after["Version"]:
        yield DiffWarning("kubernetes", f"{before['Version']} -> {after['Version']}")


def _cluster(templates: Iterable[Template]) -> Mapping[str, Any] | None:
    resources = (each for template in templates for each in template["Resources"].values())
    clusters = (each for each in resources if each["Type"] == "AWS::EKS::Cluster")
    return next((each.get("Properties", {}) for each in clusters), None)


def _open_to(cluster: Mapping[str, Any]) -> list[ipaddress.IPv4Network]:
    """Blocks that reach the API from outside its VPC; EKS's default is everybody."""
    access = cluster.get("ResourcesVpcConfig", {})
    is_public = str(access.get("EndpointPublicAccess", True)).lower() == "true"
    blocks = (access.get("PublicAccessCidrs") or ["0.0.0.0/0"]) if is_public else []
    return [ipaddress.IPv4Network(block) for block in sorted(blocks)]


def of_differences(differences: Iterable[tuple[str, str]]) -> Iterator[DiffWarning]:
    """Warnings from what the CDK CLI says of each stack: pairs of its name and the CLI's text."""
    impacts: dict[str, list[str]] = {}
    for stack, text in differences:
        for resource, impact in _IMPACT.findall(text):
            kind, _, name = resource.partition(" ")
            impacts.setdefault(_IMPACTS[impact], []).append(f"{stack}: {kind} {name}")
        for kind, words in _SECURITY.items():
            if any(word in text for word in words) and not _is_the_same_access(text):
                impacts.setdefault(kind, []).append(stack)
    for kind, details in impacts.items():
        yield DiffWarning(kind, "; ".join(details))


def _is_the_same_access(text: str) -> bool:
    """Whether the CLI's tables name what they had, with another asset, such as other prompts."""
    sides, sign = defaultdict(list), " "
    for mark, row in _ROW.findall(text):
        sign = mark if mark != " " else sign
        sides[sign].append(_HASH.sub("", row))
    return sorted(sides["+"]) == sorted(sides["-"])


def of_files(old: Path | None, new: Path) -> Iterator[DiffWarning]:
    """A warning where the file buys other nodes, or more of them."""
    before, after = _nodes(old) if old else "none", _nodes(new)
    if before != after:
        yield DiffWarning("cost", f"{before} -> {after}")


def _nodes(file: Path) -> str:
    capacity = YAML(typ="safe", pure=True).load(file)["capacity"]
    nodes, price = capacity["nodes"], capacity["price"]["usd_per_hour"]
    return (
        f"{nodes} x {capacity['instance_type']} ({capacity['purchase']}), "
        f"{24 * nodes * price:.2f} USD a day while they run"
    )


def read(folder: Path) -> Objects:
    """The objects of ``*.k8s.yaml``."""
    yaml, objects = YAML(typ="safe", pure=True), {}
    for file in sorted(folder.glob("*.k8s.yaml")):
        for manifest in filter(None, yaml.load_all(file)):
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            objects[kind, _DIGEST.sub("", name) if kind in ("Job", "Pod") else name] = manifest
    return objects


def on_pods(old: Objects, new: Objects) -> Iterator[Effect]:
    """Effects of a deploy on each pod, or maker of pods, that it starts, replaces or ends."""
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
        if effect:
            yield Effect(kind, name, effect)
