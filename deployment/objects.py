"""The objects of the experiment's namespace: what there is, and how to make one anew."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Final

import kubernetes.client
from kubernetes.client import (
    ApiClient,
    ApiException,
    AppsV1Api,
    BatchV1Api,
    CoreV1Api,
    V1Deployment,
    V1Job,
    V1Pod,
)

from charts.names import NAMESPACE
from deployment.account import DeploymentError
from deployment.cluster import kubernetes_errors

Manifest = dict[str, Any]
"""An object as it is applied."""

OVER: Final = ("Succeeded", "Failed")
"""Phases of a pod that has ended."""

JOB_LABEL: Final = "batch.kubernetes.io/job-name"

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_GONE_SECONDS: Final = 300.0
_CLUSTER_SCOPED: Final = ("Namespace", "PersistentVolume")


def pods(api: ApiClient, selector: str = "") -> list[V1Pod]:
    """Raises DeploymentError."""
    with kubernetes_errors():
        listed = CoreV1Api(api).list_namespaced_pod(NAMESPACE, label_selector=selector)
    return [*listed.items]


def jobs(api: ApiClient, selector: str = "") -> list[V1Job]:
    """Raises DeploymentError."""
    with kubernetes_errors():
        listed = BatchV1Api(api).list_namespaced_job(NAMESPACE, label_selector=selector)
    return [*listed.items]


def services(api: ApiClient, selector: str) -> list[V1Deployment]:
    """The Kubernetes Deployments. Raises DeploymentError."""
    with kubernetes_errors():
        listed = AppsV1Api(api).list_namespaced_deployment(NAMESPACE, label_selector=selector)
    return [*listed.items]


def pod(api: ApiClient, name: str) -> V1Pod | None:
    """Raises DeploymentError."""
    return _or_none(CoreV1Api(api).read_namespaced_pod, name, NAMESPACE)


def pods_of(api: ApiClient, job: V1Job) -> list[V1Pod]:
    """The Job's pods, the newest last. Raises DeploymentError."""
    selected = pods(api, f"{JOB_LABEL}={job.metadata.name}")
    return sorted(selected, key=lambda pod: str(pod.metadata.creation_timestamp))


def failure(job: V1Job) -> str | None:
    """Why Kubernetes has given the Job up; None if it has not."""
    for condition in job.status.conditions or []:
        if condition.type == "Failed" and condition.status == "True":
            return ": ".join(filter(None, (condition.reason, condition.message)))
    return None


def find(api: ApiClient, manifest: Manifest) -> Any:
    """The object of that kind and name; None if there is none. Raises DeploymentError."""
    return _or_none(_call(api, "read", manifest), *_named(manifest))


def create(api: ApiClient, manifest: Manifest) -> None:
    """Makes an object so that ``kubectl apply`` recognises it. Raises DeploymentError."""
    applied = json.dumps(manifest, separators=(",", ":")) + "\n"
    annotations = {**manifest["metadata"].get("annotations", {}), _APPLIED: applied}
    body = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    _, *namespace = _named(manifest)
    with kubernetes_errors():
        _call(api, "create", manifest)(*namespace, body)


def replace(api: ApiClient, existing: V1Pod | V1Job) -> None:
    """Deletes an object and makes it again as it was applied. Raises DeploymentError.

    As ``kubectl replace --force --save-config`` does with what ``view-last-applied`` shows.
    """
    name = existing.metadata.name
    applied = (existing.metadata.annotations or {}).get(_APPLIED)
    if applied is None:
        raise DeploymentError(f"{name} was not applied by a deploy: it cannot be made again")
    manifest: Manifest = json.loads(applied)
    with kubernetes_errors():
        _call(api, "delete", manifest)(name, NAMESPACE, propagation_policy="Foreground")
    deadline = time.monotonic() + _GONE_SECONDS
    while find(api, manifest):
        if time.monotonic() > deadline:
            raise DeploymentError(f"{name} was deleted, but has not ended for five minutes")
        time.sleep(0.5)
    create(api, manifest)


def _named(manifest: Manifest) -> list[str]:
    """What the client's functions take: the name, and the namespace of what is in one."""
    name = manifest["metadata"]["name"]
    return [name] if manifest["kind"] in _CLUSTER_SCOPED else [name, NAMESPACE]


def _call(api: ApiClient, verb: str, manifest: Manifest) -> Any:
    """The client's function for that kind, by its name.

    As ``kubernetes.utils.create_from_yaml`` looks it up (kubernetes 35.0.0).
    """
    group, _, version = manifest["apiVersion"].rpartition("/")
    client_group = group.removesuffix(".k8s.io").capitalize() or "Core"
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", manifest["kind"]).lower()
    scope = "" if manifest["kind"] in _CLUSTER_SCOPED else "namespaced_"
    typed = getattr(kubernetes.client, f"{client_group}{version.capitalize()}Api")
    return getattr(typed(api), f"{verb}_{scope}{kind}")


def _or_none(read: Any, *arguments: str) -> Any:
    with kubernetes_errors():
        try:
            return read(*arguments)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
