"""A pod as Kubernetes would start it, read from rendered manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rehearsal import RehearsalError

_ENTRYPOINT: Final = re.compile(r"^ENTRYPOINT (\[.*\])$", re.MULTILINE)

Manifest = Mapping[str, Any]
_Objects = Mapping[tuple[str, str], Manifest]
"""All that is rendered, by kind and name."""


@dataclass(frozen=True)
class Pod:
    """One container of a pod; the only one, unless stated otherwise."""

    command: tuple[str, ...] | None
    """None if the image's entry point is to run."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    fields: Mapping[str, str]
    """Variables that Kubernetes fills from the pod's own fields, each with that field's path."""
    files: Mapping[str, bytes]
    """Each file that a mounted ConfigMap brings, by its path in the pod."""


@dataclass(frozen=True)
class IndexedJob:
    """A Job each of whose pods does one index."""

    pod: Pod
    """The container that ends last, and with it the pod."""
    server: Pod | None
    """The sidecar, if there is one."""
    indexes: int
    parallelism: int
    retries: int
    """How often each index is retried after a failure."""
    final: frozenset[int]
    """Statuses after which an index is not retried."""

    def variant_of(self, index: int) -> str:
        """The name of the variant that is measured at an index. Raises RehearsalError."""
        return self._file(f"{index}.variant").strip()

    def folder_of(self, index: int) -> str:
        """The name of the folder that the variant's results are in. Raises RehearsalError."""
        return self._file(f"{index}.folder").strip()

    def server_of(self, index: int) -> Pod:
        """The sidecar as it serves at an index. Raises RehearsalError."""
        if self.server is None:
            raise RehearsalError("the Job has no sidecar")
        command = tuple(self._file(f"{index}.serve").splitlines())
        return replace(self.server, command=command, arguments=())

    def _file(self, name: str) -> str:
        for path, content in self.pod.files.items():
            if path.rpartition("/")[2] == name:
                return content.decode()
        raise RehearsalError(f"no ConfigMap of the Job has {name}")


def read_pod(directory: Path, name: str) -> Pod:
    """The pod ``name`` from the ``*.k8s.yaml`` of ``directory``. Raises RehearsalError."""
    objects = _objects(directory)
    spec = _object(objects, directory, "Pod", name)["spec"]
    if spec.get("initContainers"):
        raise RehearsalError(f"{directory}: the Pod {name} has more than one container")
    return _only_container(spec, f"{directory}: the Pod {name}", objects)


def read_deployment(directory: Path, name: str) -> Pod:
    """The pod of the Deployment ``name``, as it is once its init containers have ended.

    Raises RehearsalError.
    """
    objects = _objects(directory)
    spec = _object(objects, directory, "Deployment", name)["spec"]["template"]["spec"]
    return _only_container(spec, f"{directory}: the Deployment {name}", objects)


def read_indexed_job(directory: Path) -> IndexedJob:
    """The only Indexed Job of the ``*.k8s.yaml`` of ``directory``. Raises RehearsalError."""
    objects = _objects(directory)
    jobs = [
        manifest
        for (kind, _), manifest in objects.items()
        if kind == "Job" and manifest["spec"].get("completionMode") == "Indexed"
    ]
    if len(jobs) != 1:
        raise RehearsalError(f"{directory}: {len(jobs)} Indexed Jobs, where one is expected")
    spec, name = jobs[0]["spec"], jobs[0]["metadata"]["name"]
    template = spec["template"]["spec"]
    pod = _only_container(template, f"{directory}: the Job {name}", objects)
    sidecars = [
        container
        for container in template.get("initContainers", [])
        if container.get("restartPolicy") == "Always"
    ]
    if len(sidecars) > 1:
        raise RehearsalError(f"{directory}: the Job {name} has {len(sidecars)} sidecars")
    return IndexedJob(
        pod=pod,
        server=_container(template, sidecars[0], objects) if sidecars else None,
        indexes=spec["completions"],
        parallelism=spec["parallelism"],
        retries=spec["backoffLimitPerIndex"],
        final=_final(spec, template["containers"][0]["name"]),
    )


def entry_point(dockerfile: Path) -> tuple[str, ...]:
    """The command that an image runs if its pod names none. Raises RehearsalError."""
    match = _ENTRYPOINT.search(dockerfile.read_text(encoding="utf-8"))
    if match is None:
        raise RehearsalError(f"{dockerfile}: no ENTRYPOINT in exec form")
    return tuple(json.loads(match[1]))


def _final(spec: Manifest, container: str) -> frozenset[int]:
    """The statuses of a container that fail an index at once."""
    rules = spec.get("podFailurePolicy", {"rules": []})["rules"]
    failing = [rule["onExitCodes"] for rule in rules if rule["action"] == "FailIndex"]
    return frozenset(
        status
        for codes in failing
        if codes["operator"] == "In" and codes.get("containerName") in (None, container)
        for status in codes["values"]
    )


def _objects(directory: Path) -> _Objects:
    yaml = YAML(typ="safe", pure=True)
    objects: dict[tuple[str, str], Manifest] = {}
    for path in sorted(directory.glob("*.k8s.yaml")):
        try:
            documents = list(yaml.load_all(path))
        except YAMLError:
            raise RehearsalError(f"{path}: is not YAML") from None
        objects |= {(o["kind"], o["metadata"]["name"]): o for o in documents}
    return objects


def _object(objects: _Objects, directory: Path, kind: str, name: str) -> Manifest:
    if (kind, name) not in objects:
        raise RehearsalError(f"{directory}: no {kind} {name}")
    return objects[kind, name]


def _only_container(spec: Manifest, owner: str, objects: _Objects) -> Pod:
    if len(spec["containers"]) != 1:
        raise RehearsalError(f"{owner} has more than one container")
    return _container(spec, spec["containers"][0], objects)


def _container(spec: Manifest, container: Manifest, objects: _Objects) -> Pod:
    if "envFrom" in container:
        raise RehearsalError(f"{container['name']}: envFrom is not understood")
    environment: dict[str, str] = {}
    fields: dict[str, str] = {}
    for variable in container.get("env", []):
        name = variable["name"]
        if "value" in variable:
            environment[name] = variable["value"]
        elif "fieldRef" in variable["valueFrom"]:
            fields[name] = variable["valueFrom"]["fieldRef"]["fieldPath"]
        else:
            raise RehearsalError(f"{container['name']}: {name} has a source that is not understood")
    command = container.get("command")
    return Pod(
        command=None if command is None else tuple(command),
        arguments=tuple(container.get("args", ())),
        environment=environment,
        fields=fields,
        files=_files(spec, container, objects),
    )


def _files(spec: Manifest, container: Manifest, objects: _Objects) -> dict[str, bytes]:
    config_maps = {
        volume["name"]: volume["configMap"]["name"]
        for volume in spec["volumes"]
        if "configMap" in volume
    }
    return {
        f"{mount['mountPath']}/{key}": text.encode()
        for mount in container["volumeMounts"]
        if mount["name"] in config_maps
        for key, text in objects["ConfigMap", config_maps[mount["name"]]]["data"].items()
    }
