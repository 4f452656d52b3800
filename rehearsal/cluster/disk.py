"""What a container of a pod finds: folders in place of its volumes, and its environment."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal.cluster.api import Api, Manifest

_LABELLED: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class NotThere(Exception):
    """Something that a container needs. One line, as a kubelet would put it."""


@dataclass(frozen=True)
class Container:
    """A container of a pod that is about to start."""

    pod: Manifest
    spec: Mapping[str, Any]
    mounts: Mapping[str, Path]
    """The folder here for each path that it mounts, the longest paths first."""
    environment: Mapping[str, str]
    files: Mapping[str, bytes]
    """Each file that a mounted ConfigMap brings, by its path in the container."""

    @property
    def name(self) -> str:
        """In the pod."""
        return str(self.spec["name"])

    @property
    def command(self) -> tuple[str, ...]:
        """With its arguments; those alone, if its image's entry point is to run."""
        return (*self.spec.get("command", ()), *self.spec.get("args", ()))

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's."""
        found: Mapping[str, str] = self.pod["metadata"].get("labels", {})
        return found

    def other(self, name: str) -> Mapping[str, Any]:
        """The specification of another container of the pod."""
        spec = self.pod["spec"]
        (found,) = (
            one
            for one in (*spec.get("initContainers", ()), *spec["containers"])
            if one["name"] == name
        )
        return dict(found)


class Disk:
    """The volumes of one pod, each a folder below ``folder``."""

    def __init__(self, api: Api, pod: Manifest, folder: Path) -> None:
        self._api, self._pod, self._folder = api, pod, folder
        self._written: set[Path] = set()

    def container(self, spec: Mapping[str, Any]) -> Container:
        """One of its containers, with the folders made. Raises NotThere or ApiException."""
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", [])}
        mounted = sorted(
            spec.get("volumeMounts", []), key=lambda one: len(one["mountPath"]), reverse=True
        )
        mounts, files = dict[str, Path](), dict[str, bytes]()
        for mount in mounted:
            folder = self._folder / mount["name"] / mount.get("subPath", "")
            folder.mkdir(parents=True, exist_ok=True)
            mounts[mount["mountPath"]] = folder
            for key, content in self._files(volumes.get(mount["name"], {})).items():
                files[f"{mount['mountPath']}/{key}"] = content
                # Once for all containers: a stand-in may have put something else there.
                if (path := folder / key) not in self._written:
                    write(path, content)
                    self._written.add(path)
        return Container(self._pod, spec, mounts, dict(self._environment(spec)), files)

    def _files(self, volume: Mapping[str, Any]) -> dict[str, bytes]:
        if "configMap" not in volume:
            return {}
        found = self._config_map(volume["configMap"]["name"])
        return {key: value.encode() for key, value in found.get("data", {}).items()}

    def _environment(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for source in spec.get("envFrom", []):
            yield from self._config_map(source["configMapRef"]["name"]).get("data", {}).items()
        for variable in spec.get("env", []):
            if "valueFrom" not in variable:
                yield variable["name"], variable.get("value", "")
            elif (value := self._value(variable["valueFrom"])) is not None:
                yield variable["name"], value

    def _value(self, source: Mapping[str, Any]) -> str | None:
        """None for a key of a Secret that may be absent: no pod of ours has another."""
        if "secretKeyRef" in source:
            return self._secret(source["secretKeyRef"])
        path = source["fieldRef"]["fieldPath"]
        metadata = self._pod["metadata"]
        if match := _LABELLED.fullmatch(path):
            return str(metadata.get(match[1], {}).get(match[2], ""))
        return str(metadata[path.removeprefix("metadata.")])

    def _secret(self, reference: Mapping[str, Any]) -> str | None:
        found = self._api.get("Secret", reference["name"], self._namespace)
        coded = (found or {}).get("data", {}).get(reference["key"])
        if coded is not None:
            return base64.b64decode(coded).decode()
        if reference.get("optional"):
            return None
        raise NotThere(f'secret "{reference["name"]}" not found')

    def _config_map(self, name: str) -> Manifest:
        found = self._api.get("ConfigMap", name, self._namespace)
        if found is None:
            raise NotThere(f'configmap "{name}" not found')
        return found

    @property
    def _namespace(self) -> str:
        return str(self._pod["metadata"]["namespace"])


def write(path: Path, content: bytes) -> None:
    """At once, since a shell that runs a script reads it as it goes."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.rename(path)
