"""What a deploy does to nodes, cluster and bucket, read off the templates of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scripts.diff.stacks import Assembly

Impacts = Mapping[tuple[str, str], str]
"""What the CDK CLI says of a resource, by stack and logical id: ``replace``, ``destroy``, ..."""

_LABEL: Final = "speculative-decoding/node-group"
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")
_RUNS: Final = ("AWS::EKS::Nodegroup", "AWS::EKS::Cluster", "AWS::S3::Bucket")
_VERSIONS: Final = {
    "AWS::EKS::Cluster": ("Name", "Version", "the control plane of {} goes from Kubernetes"),
    "AWS::EKS::Addon": ("AddonName", "AddonVersion", "the add-on {} goes from"),
    "Custom::AWSCDK-EKS-HelmChart": ("Release", "Version", "the Helm release {} goes from"),
}
"""Type, and which of its properties name it and its version."""


def consequences(old: Assembly, new: Assembly, impacts: Impacts) -> Iterator[str]:
    """A sentence each, for an account that has the ``old`` stacks and gets the ``new`` ones."""
    if not old.templates:
        return
    for stack in new.templates:
        if stack not in old.templates:
            yield f"the stack {stack} is new"
    for stack in old.templates:
        if stack not in new.templates:
            yield f"the stack {stack} stays as it is, since a deploy deletes none"
            continue
        before, after = (side.templates[stack].get("Resources", {}) for side in (old, new))
        for logical_id in dict.fromkeys([*after, *before]):
            pair = before.get(logical_id), after.get(logical_id)
            impact = impacts.get((stack, logical_id), "")
            yield from _of_resource(logical_id, *pair, before, after, impact)


def _of_resource(
    logical_id: str,
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    impact: str,
) -> Iterator[str]:
    kind = (new or old or {})["Type"]
    if kind == "AWS::EKS::Nodegroup":
        yield from _nodes(old, new, before, after, impact)
    elif kind == "AWS::S3::Bucket" and old:
        yield from _bucket(old, new, impact)
    elif kind == "AWS::EKS::Cluster" and impact == "replace":
        yield "the cluster is replaced: everything that runs in it ends"
    elif kind not in _RUNS and impact in ("replace", "may be replaced"):
        yield f"{kind} {logical_id} {'is replaced' if impact == 'replace' else impact}"
    elif old and not new and old.get("DeletionPolicy") == "Retain":
        yield f"{kind} {logical_id} stays, though no stack has it any more"
    if old and new and kind in _VERSIONS and impact != "replace":
        yield from _version(kind, old["Properties"], new["Properties"])


def _version(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    name, version, words = _VERSIONS[kind]
    if old.get(version) != new.get(version):
        yield f"{words.format(new.get(name))} {old.get(version)} to {new.get(version)}"


def _bucket(old: Mapping[str, Any], new: Mapping[str, Any] | None, impact: str) -> Iterator[str]:
    policy = "UpdateReplacePolicy" if new else "DeletionPolicy"
    kept = old.get(policy) in ("Retain", "RetainExceptOnCreate")
    if new is None:
        yield (
            "the bucket stays, though no stack has it any more"
            if kept
            else ("the bucket is deleted")
        )
    elif impact == "replace":
        stays = "the old one stays" if kept else "what is in the old one is lost"
        yield f"the bucket is replaced by an empty one; {stays}"
    elif old != new:
        yield "the bucket stays, with all that is in it"


def _nodes(
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    impact: str,
) -> Iterator[str]:
    """What becomes of the nodes of a group."""
    name = _name(new or old or {})
    if old is None or new is None:
        yield f"a group of {name} is {'made' if new else 'deleted, with its nodes'}"
        return
    if impact == "replace":
        yield f"the group of {name} is replaced: a new one is made, then the old one deleted"
    elif _made_of(old, before) != _made_of(new, after):
        yield f"the {name} that stand are replaced, {_update(new)}"
    sizes = [group["Properties"]["ScalingConfig"]["MaxSize"] for group in (old, new)]
    if sizes[0] != sizes[1]:
        yield f"there are at most {sizes[1]} {name} in place of {sizes[0]}"


def _name(group: Mapping[str, Any]) -> str:
    label = group["Properties"].get("Labels", {}).get(_LABEL)
    return {"trainium": "Trainium nodes", "compile": "compile nodes"}.get(label, "system nodes")


def _made_of(group: Mapping[str, Any], resources: Mapping[str, Any]) -> list[Any]:
    """What EKS makes a node of; a change of any of it replaces those that stand."""
    its = group["Properties"]
    template = its.get("LaunchTemplate", {}).get("Id", {}).get("Ref")
    data = resources.get(template, {}).get("Properties", {}).get("LaunchTemplateData")
    return [its.get("ReleaseVersion"), its.get("Version"), data]


def _update(group: Mapping[str, Any]) -> str:
    """How: EKS starts a node before it ends one, unless it is told to take less than it has."""
    its = group["Properties"]
    if its.get("UpdateConfig", {}).get("UpdateStrategy") == "MINIMAL":
        return "one at a time, each ended before the next starts"
    count = its["ScalingConfig"]["MinSize"] or its["ScalingConfig"]["MaxSize"]
    further = _ORDINALS[count] if count < len(_ORDINALS) else "further"
    return f"one at a time: a {further} node for the length of the update"
