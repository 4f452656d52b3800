"""Cluster-scoped objects in a namespaced chart."""

from __future__ import annotations

from cdk8s import ApiObject, JsonPatch


def cluster_scoped(manifest: ApiObject) -> None:
    """Take away the namespace that a chart gives all its objects."""
    manifest.add_json_patch(JsonPatch.remove("/metadata/namespace"))
