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

from rehearsal.errors import RehearsalError

_ENTRYPOINT: Final = re.compile(r"^ENTRYPOINT (\[.*\])$", re.MULTILINE)


@dataclass(frozen=True)
class Pod:
    """One container of a pod; the only one, if nothing else is said."""

    command: tuple[str, ...] | None
    """None if the image's entry point is to run."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    fields: Mapping[str, str]
    """Variables that Kubernetes fills from the pod's own fields, each with that field's path."""
    mounts: tuple[str, ...]
    """All mounted paths."""
    files: Mapping[str, bytes]
    """Each file that a mounted ConfigMap brings, by its path in the pod."""
    directory: str | None = None
    """Where it runs; None: where its image says."""


@dataclass(frozen=True, kw_only=True)
class Indexes:
    """A Job each of whose pods does one index."""

    pod: Pod
    """The benchmark's container; the last that ends, and with it the pod."""
    indexes: int
    parallelism: int
    retries: int
    """How often each index is made again after a failure."""
    final: frozenset[int] = frozenset()
    """Statuses after which an index is not made again."""

    def variant_of(self, index: int) -> str:
        """The name of the variant that is measured at an index. Raises RehearsalError."""
        return self._file(f"{index}.variant").strip()

    def folder_of(self, index: int) -> str:
        """The name of the folder that the variant's results are in. Raises RehearsalError."""
        return self._file(f"{index}.folder").strip()

    def _file(self, name: str) -> str:
        for path, content in self.pod.files.items():
            if path.rpartition("/")[2] == name:
                return content.decode()
        raise RehearsalError(f"no ConfigMap of the Job has {name}")


@dataclass(frozen=True, kw_only=True)
class IndexedJob(Indexes):
    """One whose pods each have a server of their own."""

    server: Pod
    """The sidecar."""

    def server_of(self, index: int) -> Pod:
        """The sidecar as it serves at an index. Raises RehearsalError."""
        command = tuple(self._file(f"{index}.serve").splitlines())
        return replace(self.server, command=command, arguments=())


@dataclass(frozen=True)
class JobTemplate:
    """An Indexed Job, and what it makes its pods of."""

    name: str
    spec: Mapping[str, Any]
    objects: Mapping[tuple[str, str], Mapping[str, Any]]
    """All that is rendered, by kind and name."""

    @property
    def pod(self) -> Mapping[str, Any]:
        """The specification of its pods."""
        found: Mapping[str, Any] = self.spec["template"]["spec"]
        return found

    def container(self, name: str) -> Pod:
        """A container of its pods, one of those that begin them or one that stays. Raises
        RehearsalError."""
        pod = self.pod
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            if container["name"] == name:
                return _container(pod, container, self.objects)
        raise RehearsalError(f"the Job {self.name} has no container {name}")

    def final(self, container: str) -> frozenset[int]:
        """The statuses of one container that fail an index at once."""
        rules = self.spec.get("podFailurePolicy", {"rules": []})["rules"]
        failing = [rule["onExitCodes"] for rule in rules if rule["action"] == "FailIndex"]
        return frozenset(
            status
            for codes in failing
            if codes["operator"] == "In" and codes.get("containerName") in (None, container)
            for status in codes["values"]
        )


def read_pod(directory: Path, name: str) -> Pod:
    """The pod ``name`` from the ``*.k8s.yaml`` of ``directory``. Raises RehearsalError."""
    objects = _objects(directory)
    spec = _object(objects, directory, "Pod", name)["spec"]
    if spec.get("initContainers"):
        raise RehearsalError(f"{directory}: the Pod {name} has more than one container")
    return _pod(spec, f"{directory}: the Pod {name}", objects)


def read_deployment(directory: Path, name: str) -> Pod:
    """The pod of the Deployment ``name``, as it is once its init containers have ended.

    Raises RehearsalError.
    """
    objects = _objects(directory)
    deployment = _object(objects, directory, "Deployment", name)
    spec = deployment["spec"]["template"]["spec"]
    return _pod(spec, f"{directory}: the Deployment {name}", objects)


def read_job_template(directory: Path) -> JobTemplate:
    """The only Indexed Job of the ``*.k8s.yaml`` of ``directory``. Raises RehearsalError."""
    objects = _objects(directory)
    jobs = [
        content
        for (kind, _), content in objects.items()
        if kind == "Job" and content["spec"].get("completionMode") == "Indexed"
    ]
    if len(jobs) != 1:
        raise RehearsalError(f"{directory}: {len(jobs)} Indexed Jobs, where one is expected")
    (job,) = jobs
    return JobTemplate(job["metadata"]["name"], job["spec"], objects)


def read_indexed_job(directory: Path) -> IndexedJob:
    """The only Indexed Job, which has a sidecar. Raises RehearsalError."""
    job = read_job_template(directory)
    place, spec = f"{directory}: the Job {job.name}", job.spec
    sidecars = [
        container["name"]
        for container in job.pod.get("initContainers", [])
        if container.get("restartPolicy") == "Always"
    ]
    if len(sidecars) != 1:
        raise RehearsalError(f"{place} has {len(sidecars)} sidecars, not one")
    benchmark = _pod(job.pod, place, job.objects)
    (container,) = job.pod["containers"]
    return IndexedJob(
        pod=benchmark,
        server=job.container(sidecars[0]),
        indexes=spec["completions"],
        parallelism=spec["parallelism"],
        retries=spec["backoffLimitPerIndex"],
        final=job.final(container["name"]),
    )


def _object(
    objects: Mapping[tuple[str, str], dict[str, Any]], directory: Path, kind: str, name: str
) -> dict[str, Any]:
    if (kind, name) not in objects:
        raise RehearsalError(f"{directory}: no {kind} {name}")
    return objects[kind, name]


def _pod(
    spec: Mapping[str, Any], place: str, objects: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Pod:
    if len(spec["containers"]) != 1:
        raise RehearsalError(f"{place} has more than one container")
    (container,) = spec["containers"]
    return _container(spec, container, objects)


def _container(
    spec: Mapping[str, Any],
    container: Mapping[str, Any],
    objects: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Pod:
    command = container.get("command")
    plain, fields = _environment(container)
    return Pod(
        command=None if command is None else tuple(command),
        arguments=tuple(container.get("args", ())),
        environment=plain,
        fields=fields,
        mounts=tuple(mount["mountPath"] for mount in container["volumeMounts"]),
        files=_files(spec, container, objects),
        directory=container.get("workingDir"),
    )


def entry_point(dockerfile: Path) -> tuple[str, ...]:
    """The command that an image runs if its pod names none. Raises RehearsalError."""
    match = _ENTRYPOINT.search(dockerfile.read_text(encoding="utf-8"))
    if match is None:
        raise RehearsalError(f"{dockerfile}: no ENTRYPOINT in exec form")
    return tuple(json.loads(match[1]))


def _objects(directory: Path) -> dict[tuple[str, str], dict[str, Any]]:
    yaml = YAML(typ="safe", pure=True)
    objects: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(directory.glob("*.k8s.yaml")):
        try:
            documents = list(yaml.load_all(path))
        except YAMLError:
            raise RehearsalError(f"{path}: is not YAML") from None
        objects |= {(o["kind"], o["metadata"]["name"]): o for o in documents}
    return objects


def _environment(container: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    if "envFrom" in container:
        raise RehearsalError(f"{container['name']}: envFrom is not understood")
    plain: dict[str, str] = {}
    fields: dict[str, str] = {}
    for variable in container.get("env", []):
        name = variable["name"]
        if "value" in variable:
            plain[name] = variable["value"]
        elif "fieldRef" in variable["valueFrom"]:
            fields[name] = variable["valueFrom"]["fieldRef"]["fieldPath"]
        else:
            raise RehearsalError(f"{container['name']}: {name} has a source that is not understood")
    return plain, fields


def _files(
    spec: Mapping[str, Any],
    container: Mapping[str, Any],
    objects: Mapping[tuple[str, str], Mapping[str, Any]],
) -> dict[str, bytes]:
    config_maps = {
        volume["name"]: volume["configMap"]["name"]
        for volume in spec["volumes"]
        if "configMap" in volume
    }
    files: dict[str, bytes] = {}
    for mount in container["volumeMounts"]:
        if mount["name"] in config_maps:
            config_map = objects["ConfigMap", config_maps[mount["name"]]]
            files |= {
                f"{mount['mountPath']}/{key}": text.encode()
                for key, text in config_map["data"].items()
            }
    return files
