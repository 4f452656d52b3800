"""A pod as Kubernetes would start it, read from rendered manifests."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from rehearsal import RehearsalError
from spectap.inputs.config import Config

_ENTRYPOINT: Final = re.compile(r"^ENTRYPOINT (\[.*\])$", re.MULTILINE)

Manifest = Mapping[str, Any]
_Objects = Mapping[tuple[str, str], Manifest]
"""By kind and name."""


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

    def variant_of(self, index: int) -> str:
        return self._file(f"{index}.variant").strip()

    def folder_of(self, index: int) -> str:
        return self._file(f"{index}.folder").strip()

    def server_of(self, index: int) -> Pod:
        """The sidecar as it serves at an index."""
        assert self.server is not None, "the Job has no sidecar"
        command = tuple(self._file(f"{index}.serve").splitlines())
        return replace(self.server, command=command, arguments=())

    def _file(self, name: str) -> str:
        (content,) = (c for path, c in self.pod.files.items() if path.rpartition("/")[2] == name)
        return content.decode()


def read_pod(directory: Path, kind: str, app: str) -> Pod:
    """The pod of a Pod or a Deployment from the ``*.k8s.yaml`` of ``directory``, by its label.

    A Deployment's as it is once its init containers have ended. Raises RehearsalError.
    """
    objects = _objects(directory)
    for (of, _), manifest in objects.items():
        if of == kind and manifest["metadata"].get("labels", {}).get("app") == app:
            spec = manifest["spec"] if kind == "Pod" else manifest["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            return _container(spec, container, objects)
    raise RehearsalError(f"{directory}: no {kind} {app}")


def read_indexed_job(directory: Path) -> IndexedJob:
    """The only Indexed Job of the ``*.k8s.yaml`` of ``directory``. Raises RehearsalError."""
    objects = _objects(directory)
    (spec,) = (
        manifest["spec"]
        for manifest in objects.values()
        if manifest.get("spec", {}).get("completionMode") == "Indexed"
    )
    template = spec["template"]["spec"]
    (container,) = template["containers"]
    sidecars = (c for c in template.get("initContainers", ()) if c.get("restartPolicy") == "Always")
    server = next(sidecars, None)
    return IndexedJob(
        pod=_container(template, container, objects),
        server=_container(template, server, objects) if server else None,
        indexes=spec["completions"],
        parallelism=spec["parallelism"],
    )


def read_config(directory: Path) -> Config:
    """The benchmark's input, from the only ConfigMap that has one."""
    (text,) = (
        manifest["data"]["config.json"]
        for (kind, _), manifest in _objects(directory).items()
        if kind == "ConfigMap" and "config.json" in manifest["data"]
    )
    return Config.model_validate_json(text)


def entry_point(dockerfile: Path) -> tuple[str, ...]:
    """The command that an image runs if its pod names none."""
    (entry,) = _ENTRYPOINT.findall(dockerfile.read_text(encoding="utf-8"))
    return tuple(json.loads(entry))


def _objects(directory: Path) -> _Objects:
    yaml = YAML(typ="safe", pure=True)
    return {
        (manifest["kind"], manifest["metadata"]["name"]): manifest
        for path in sorted(directory.glob("*.k8s.yaml"))
        for manifest in yaml.load_all(path)
    }


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
    config_maps = {
        volume["name"]: volume["configMap"]["name"]
        for volume in spec["volumes"]
        if "configMap" in volume
    }
    command = container.get("command")
    return Pod(
        command=None if command is None else tuple(command),
        arguments=tuple(container.get("args", ())),
        environment=environment,
        fields=fields,
        files={
            f"{mount['mountPath']}/{key}": text.encode()
            for mount in container["volumeMounts"]
            if mount["name"] in config_maps
            for key, text in objects["ConfigMap", config_maps[mount["name"]]]["data"].items()
        },
    )
