"""A cluster as the tests speak to it: kubectl for what a person does, the API for the rest."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from charts.names import NAMESPACE
from control_plane.servers import ControlPlane
from rehearsal.cluster.api import Api, Manifest

__all__ = ["SECONDS", "Cluster", "Manifest", "Refused"]

T = TypeVar("T")

SECONDS: Final = 60.0
"""What the slowest of the things waited for takes is a tenth of it."""
_POLL_SECONDS: Final = 0.1


class Refused(Exception):
    """kubectl's own words about what the API server does not take."""


class Cluster(Api):
    """A control plane and what is in it."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        super().__init__(plane.kubeconfig, directory)
        self.plane = plane

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints. Raises Refused."""
        command = [str(self.plane.kubectl), "--kubeconfig", str(self.plane.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            raise Refused(done.stderr.strip())
        return done.stdout

    def apply(self, directory: Path, *, server_side: bool = True) -> list[str]:
        """Applies a folder of manifests; a line for each object. Raises Refused.

        By default as kubectl recommends; otherwise as the CDK's handler does it.
        """
        flags = ("--validate=strict", "--filename", str(directory))
        return self.kubectl(
            "apply", f"--server-side={str(server_side).lower()}", *flags
        ).splitlines()

    def get(self, kind: str, name: str, namespace: str | None = NAMESPACE) -> Manifest | None:
        """One object, or None. Raises ApiException."""
        return super().get(kind, name, namespace)

    def all(self, kind: str, namespace: str | None = NAMESPACE) -> list[Manifest]:
        """All objects of a kind, of one namespace or, with None, of all. Raises ApiException."""
        return super().all(kind, namespace)

    def snapshot(self, kind: str) -> tuple[str, list[Manifest]]:
        """The namespace's objects of a kind, and the revision they are of."""
        listed = self.resource(kind).get(namespace=NAMESPACE).to_dict()
        return listed["metadata"]["resourceVersion"], listed["items"]

    def history(self, kind: str, since: str) -> Iterator[tuple[int, str, Manifest]]:
        """Every change of the namespace's objects of a kind: its revision, what it was, the object.

        A watch from a revision in the past tells all that happened since, missing nothing.
        """
        resource = self.resource(kind)
        for event in resource.watch(namespace=NAMESPACE, resource_version=since, timeout=1):
            raw: Manifest = event["raw_object"]
            yield int(raw["metadata"]["resourceVersion"]), event["type"], raw

    def served(self) -> Iterator[tuple[str, Manifest]]:
        """API group and resource, e.g. ``pods/status``, of all that the server serves."""
        groups = json.loads(self.kubectl("get", "--raw", "/apis"))["groups"]
        paths = {f"/apis/{v['groupVersion']}": g["name"] for g in groups for v in g["versions"]}
        for path, group in {"/api/v1": "", **paths}.items():
            for resource in json.loads(self.kubectl("get", "--raw", path))["resources"]:
                yield group, resource

    def until(self, probe: Callable[[], T | None], what: str) -> T:
        """The first answer of ``probe`` that is not None or False."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            self.plane.check()
            answer = probe()
            if answer is not None and answer is not False:
                return answer
            time.sleep(_POLL_SECONDS)
        raise AssertionError(f"not within {SECONDS:.0f} s: {what}")
