"""A cluster as the tests speak to it: kubectl for what a person does, the API for the rest."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from kubernetes import config, dynamic
from kubernetes.client import ApiException

from tests.control_plane.servers import ControlPlane

Manifest = dict[str, Any]

T = TypeVar("T")

NAMESPACE: Final = "speculative-decoding"
"""That of the article's experiment, whose name most experiments here have."""
SECONDS: Final = 60.0
"""What the slowest of the things waited for takes is a tenth of it."""
_POLL_SECONDS: Final = 0.1
_VERSIONS: Final = {
    "CSIDriver": "storage.k8s.io/v1",
    "Deployment": "apps/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "Job": "batch/v1",
    "Node": "v1",
    "Pod": "v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
}
_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
"""It leaves conditions that others have set."""


class Refused(Exception):
    """kubectl's own words about what the API server does not take."""


class Cluster:
    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        """``directory`` takes what is found out about the server."""
        self.plane = plane
        self.client = dynamic.DynamicClient(
            config.new_client_from_config(str(plane.kubeconfig)),
            # By default a file that every cluster ever met at this address shares.
            cache_file=str(directory / "discovery.json"),
        )

    def kubectl(self, *arguments: str) -> str:
        command = [str(self.plane.kubectl), "--kubeconfig", str(self.plane.kubeconfig), *arguments]
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if result.returncode != 0:
            raise Refused(result.stderr.strip())
        return result.stdout

    def apply(self, directory: Path, *, server_side: bool = True) -> list[str]:
        """Applies a folder of manifests; a line for each object. Raises Refused.

        By default as kubectl recommends; otherwise as the CDK's handler does it.
        """
        flags = ("--validate=strict", "--filename", str(directory))
        return self.kubectl(
            "apply", f"--server-side={str(server_side).lower()}", *flags
        ).splitlines()

    def get(self, kind: str, name: str, namespace: str | None = NAMESPACE) -> Manifest | None:
        try:
            return dict(self.resource(kind).get(name=name, namespace=namespace).to_dict())
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def all(self, kind: str, namespace: str | None = NAMESPACE) -> list[Manifest]:
        return list(self.resource(kind).get(namespace=namespace).to_dict()["items"])

    def create(self, manifest: Manifest, namespace: str | None = None, **options: str) -> Manifest:
        resource = self.resource(manifest["kind"])
        return dict(resource.create(body=manifest, namespace=namespace, **options).to_dict())

    def patch(self, manifest: Manifest, change: Manifest, *, status: bool = False) -> None:
        """Merges ``change`` into an object or its status. Raises ApiException."""
        resource, metadata = self.resource(manifest["kind"]), manifest["metadata"]
        (resource.status if status else resource).patch(
            name=metadata["name"],
            namespace=metadata.get("namespace"),
            body=change,
            content_type=_MERGE_PATCH,
        )

    def delete(self, manifest: Manifest, **options: Any) -> None:
        """Asks for an object's end; nothing if it has ended. Raises ApiException."""
        metadata = manifest["metadata"]
        try:
            self.resource(manifest["kind"]).delete(
                name=metadata["name"],
                namespace=metadata.get("namespace"),
                body={"apiVersion": "v1", "kind": "DeleteOptions", **options},
            )
        except ApiException as error:
            if error.status != 404:
                raise

    def resource(self, kind: str) -> Any:
        return self.client.resources.get(api_version=_VERSIONS[kind], kind=kind)

    def until(self, probe: Callable[[], T | None], description: str) -> T:
        """The first answer of ``probe`` that is not None or False."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            self.plane.check()
            answer = probe()
            if answer is not None and answer is not False:
                return answer
            time.sleep(_POLL_SECONDS)
        there = self.kubectl("get", "jobs,pods", "--namespace", NAMESPACE, "--output=wide")
        raise AssertionError(f"not within {SECONDS:.0f} s: {description}. There are\n{there}")
