"""The Kubernetes API, as whatever stands in for nodes and kubelets speaks to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kubernetes import config, dynamic
from kubernetes.client import ApiException

Manifest = dict[str, Any]

_VERSIONS: Final = {
    "ConfigMap": "v1",
    "CSIDriver": "storage.k8s.io/v1",
    "Deployment": "apps/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "Event": "v1",
    "Job": "batch/v1",
    "Lease": "coordination.k8s.io/v1",
    "Namespace": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Node": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "Pod": "v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "Secret": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "SubjectAccessReview": "authorization.k8s.io/v1",
}
_MERGE_PATCH: Final = "application/merge-patch+json"


class Api:
    """Objects by kind and name, as plain mappings."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        """``directory`` takes what is found out about the server."""
        self.client = dynamic.DynamicClient(
            config.new_client_from_config(str(kubeconfig)),
            # By default a file that every cluster ever met at this address shares.
            cache_file=str(directory / "discovery.json"),
        )

    def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        """One object, or None. Raises ApiException."""
        try:
            found: Manifest = self.resource(kind).get(name=name, namespace=namespace).to_dict()
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return found

    def all(self, kind: str, namespace: str | None = None) -> list[Manifest]:
        """All objects of a kind, of one namespace or, with None, of all. Raises ApiException."""
        items: list[Manifest] = self.resource(kind).get(namespace=namespace).to_dict()["items"]
        return items

    def create(self, manifest: Manifest, namespace: str | None = None, **options: str) -> Manifest:
        """Creates an object; returns what became of it. Raises ApiException."""
        resource = self.resource(manifest["kind"])
        created: Manifest = resource.create(body=manifest, namespace=namespace, **options).to_dict()
        return created

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
        """Of the dynamic client."""
        return self.client.resources.get(api_version=_VERSIONS[kind], kind=kind)
