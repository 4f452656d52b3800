"""What the experiment's namespace has, and how to make an object of it anew."""

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
from deployment.cluster import kubernetes_in_words
from deployment.errors import DeploymentError

Manifest = dict[str, Any]
"""An object as it is applied."""

OVER: Final = ("Succeeded", "Failed")
"""Phases of a pod that has ended."""

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_GONE_SECONDS: Final = 300.0
_OF_NO_NAMESPACE: Final = ("Namespace", "PersistentVolume")


def pods(api: ApiClient, selector: str) -> list[V1Pod]:
    """Raises DeploymentError."""
    with kubernetes_in_words():
        found: list[V1Pod] = (
            CoreV1Api(api).list_namespaced_pod(NAMESPACE, label_selector=selector).items
        )
    return found


def pod(api: ApiClient, name: str) -> V1Pod | None:
    """Raises DeploymentError."""
    return _found(CoreV1Api(api).read_namespaced_pod, name, NAMESPACE)


def jobs(api: ApiClient, selector: str) -> list[V1Job]:
    """Raises DeploymentError."""
    with kubernetes_in_words():
        found: list[V1Job] = (
            BatchV1Api(api).list_namespaced_job(NAMESPACE, label_selector=selector).items
        )
    return found


def deployments(api: ApiClient, selector: str) -> list[V1Deployment]:
    """Raises DeploymentError."""
    with kubernetes_in_words():
        found: list[V1Deployment] = (
            AppsV1Api(api).list_namespaced_deployment(NAMESPACE, label_selector=selector).items
        )
    return found


def failed(job: V1Job) -> str | None:
    """Why Kubernetes has given the Job up; None if it has not."""
    for condition in job.status.conditions or []:
        if condition.type == "Failed" and condition.status == "True":
            return ": ".join(filter(None, (condition.reason, condition.message)))
    return None


def log(api: ApiClient, pod: V1Pod, container: str, lines: int, *, previous: bool = False) -> str:
    """The last lines; empty if there is no log to be had. Raises DeploymentError."""
    with kubernetes_in_words():
        try:
            text: str = CoreV1Api(api).read_namespaced_pod_log(
                pod.metadata.name,
                NAMESPACE,
                container=container,
                tail_lines=lines,
                previous=previous,
            )
        except ApiException as error:
            if error.status in (400, 404, 500):  # no such container yet, or no kubelet to ask
                return ""
            raise
    return text


def restarts(pod: V1Pod) -> int:
    """Of the container of ``pod`` that was started most often again."""
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    return max((status.restart_count for status in statuses), default=0)


def last_words(api: ApiClient, pod: V1Pod, lines: int = 10) -> str:
    """The container of ``pod`` that failed last, and the end of its log. Raises DeploymentError."""
    statuses = [*(pod.status.init_container_statuses or []), *(pod.status.container_statuses or [])]
    ended = [
        (state.finished_at, status.name, state.exit_code, number)
        for status in statuses
        for number, which in enumerate((status.state, status.last_state))
        if which and (state := which.terminated) and state.exit_code
    ]
    if not ended:
        return f"{pod.metadata.name} ended: {pod.status.reason or pod.status.phase}"
    _, container, code, number = max(ended)
    said = log(api, pod, container, lines, previous=bool(number)).rstrip()
    begin = f"{pod.metadata.name}, container {container}, ended with status {code}"
    return "\n".join([begin, *(f"  {line}" for line in said.splitlines())])


def replace(api: ApiClient, found: V1Pod | V1Job) -> None:
    """Deletes an object and makes it again as it was applied. Raises DeploymentError.

    As ``kubectl replace --force --save-config`` does with what ``view-last-applied`` shows.
    """
    its = found.metadata
    applied = (its.annotations or {}).get(_APPLIED)
    if applied is None:
        raise DeploymentError(
            f"{its.name} was not applied by a deploy, so that it cannot be made again as it was"
        )
    manifest: Manifest = json.loads(applied)
    with kubernetes_in_words():
        _call(api, "delete", manifest)(its.name, NAMESPACE, propagation_policy="Foreground")
    deadline = time.monotonic() + _GONE_SECONDS
    while find(api, manifest):
        if time.monotonic() > deadline:
            raise DeploymentError(f"{its.name} was deleted, but has not ended for five minutes")
        time.sleep(0.5)
    create(api, manifest)


def find(api: ApiClient, manifest: Manifest) -> Any:
    """The object of that kind and name; None if there is none. Raises DeploymentError."""
    return _found(_call(api, "read", manifest), *_named(manifest))


def create(api: ApiClient, manifest: Manifest) -> None:
    """Makes an object such that ``kubectl apply`` knows it for its own. Raises DeploymentError."""
    applied = json.dumps(manifest, separators=(",", ":")) + "\n"
    annotations = {**manifest["metadata"].get("annotations", {}), _APPLIED: applied}
    body = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    _, *namespace = _named(manifest)
    with kubernetes_in_words():
        _call(api, "create", manifest)(*namespace, body)


def _named(manifest: Manifest) -> list[str]:
    """What the client's functions take: the name, and the namespace of what is in one."""
    name = manifest["metadata"]["name"]
    return [name] if manifest["kind"] in _OF_NO_NAMESPACE else [name, NAMESPACE]


def _call(api: ApiClient, verb: str, manifest: Manifest) -> Any:
    """The client's function for that kind, by its name.

    As ``kubernetes.utils.create_from_yaml`` finds it (kubernetes 35.0.0).
    """
    group, _, version = manifest["apiVersion"].rpartition("/")
    of_group = group.removesuffix(".k8s.io").capitalize() or "Core"
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", manifest["kind"]).lower()
    place = "" if manifest["kind"] in _OF_NO_NAMESPACE else "namespaced_"
    typed = getattr(kubernetes.client, f"{of_group}{version.capitalize()}Api")
    return getattr(typed(api), f"{verb}_{place}{kind}")


def _found(read: Any, *named: str) -> Any:
    with kubernetes_in_words():
        try:
            return read(*named)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
