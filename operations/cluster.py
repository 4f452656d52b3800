"""The Kubernetes API of the experiment's cluster, and the objects of its namespace."""

import base64
import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

import boto3
import kubernetes.client
from kubernetes.client import (
    ApiClient,
    ApiException,
    AppsV1Api,
    BatchV1Api,
    Configuration,
    CoreV1Api,
    V1Deployment,
    V1Job,
    V1Pod,
)
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from charts.names import namespace
from operations.account import Deployment, DeploymentError, ask
from stacks.limits import LAST_APPLIED

ADDRESS_VARIABLE: Final = "KUBERNETES_API"
"""Environment variable: where the API answers in place of its own address, e.g. a forwarded port
(docs/runbook.md). The certificate is still checked against the API's own name."""
ADMINISTRATOR_OUTPUT: Final = "AdministratorRole"
"""Output of the cluster stack: ARN of the role that kubectl assumes."""

_TOKEN_PREFIX: Final = "k8s-aws-v1."
_SIGNED_SECONDS: Final = 60
_RENEWED_SECONDS: Final = 600
"""A token is good for 15 minutes."""

Manifest = dict[str, Any]
"""An object as it is applied."""

OVER: Final = ("Succeeded", "Failed")
"""Phases of a pod that has ended."""

JOB_LABEL: Final = "batch.kubernetes.io/job-name"

_GONE_SECONDS: Final = 300.0


class NoCluster(DeploymentError):
    """The account has no such cluster, or not yet."""


class Unreachable(DeploymentError):
    """The cluster's API does not answer."""


class Api(ApiClient):  # type: ignore[misc]  # kubernetes has no types
    """A client for the typed APIs of the ``kubernetes`` package, which raises DeploymentError."""

    namespace: str
    """The experiment's."""

    def call_api(self, *words: Any, **options: Any) -> Any:
        try:
            return super().call_api(*words, **options)
        except ApiException as error:
            text = f"Kubernetes: {error.status} {error.reason}"
            raise DeploymentError(text, str(error.status)) from None
        except HTTPError as error:
            why = getattr(error, "reason", None) or error
            raise Unreachable(f"Kubernetes: the API does not answer: {why}") from None


@contextlib.contextmanager
def connected(deployment: Deployment) -> Iterator[Api]:
    """A client whose token renews itself."""
    answer = ask(deployment.client("eks").describe_cluster, name=deployment.cluster_name)
    if answer is None:
        raise NoCluster(f"there is no cluster {deployment.cluster_name} in {deployment.region}")
    cluster: dict[str, Any] = answer["cluster"]
    if cluster["status"] not in ("ACTIVE", "UPDATING"):
        raise NoCluster(f"cluster {deployment.cluster_name} is {cluster['status']}")
    named = deployment.experiment.aws.administrator_role
    role = named or deployment.outputs("cluster").get(ADMINISTRATOR_OUTPUT)
    if role is None:
        raise NoCluster(
            f"stack {deployment.name}-cluster in {deployment.region} is missing or not complete"
        )
    bearer, signed_at = "", float("-inf")

    def renew(requested: Configuration) -> None:
        """Called before each request."""
        nonlocal bearer, signed_at
        if time.monotonic() - signed_at > _RENEWED_SECONDS:
            bearer, signed_at = token(deployment, role), time.monotonic()
        requested.api_key["authorization"] = bearer

    with tempfile.NamedTemporaryFile(suffix=".crt") as authority:
        authority.write(base64.b64decode(cluster["certificateAuthority"]["data"]))
        authority.flush()
        configuration = Configuration()
        configuration.host = os.environ.get(ADDRESS_VARIABLE) or cluster["endpoint"]
        # A private API drops what comes from elsewhere, so that each try takes its whole time.
        configuration.retries = Retry(total=3, connect=1)
        configuration.ssl_ca_cert = authority.name
        configuration.tls_server_name = (
            cluster["endpoint"].removeprefix("https://").partition(":")[0]
        )
        configuration.api_key_prefix["authorization"] = "Bearer"
        # The hook is asked only where there is a key already (kubernetes 35.0.0, configuration.py,
        # auth_settings).
        configuration.api_key["authorization"] = ""
        configuration.refresh_api_key_hook = renew
        with Api(configuration) as client:
            client.namespace = namespace(deployment.experiment)
            yield client


def token(deployment: Deployment, role: str) -> str:
    """A bearer token for the cluster: a signed request that says who asks.

    As ``aws eks get-token`` makes it (aws-cli 1.46.3, ``customizations/eks/get_token.py``).
    """
    lent = deployment.client("sts").assume_role(RoleArn=role, RoleSessionName="experiment")
    keys = [lent["Credentials"][key] for key in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
    sts = boto3.Session(*keys, region_name=deployment.region).client("sts")

    def name_cluster(request: Any, **_: Any) -> None:
        request.headers["x-k8s-aws-id"] = deployment.cluster_name

    sts.meta.events.register("before-sign.sts.GetCallerIdentity", name_cluster)
    signed = sts.generate_presigned_url(
        "get_caller_identity", ExpiresIn=_SIGNED_SECONDS, HttpMethod="GET"
    )
    return _TOKEN_PREFIX + base64.urlsafe_b64encode(signed.encode()).decode().rstrip("=")


def pods(api: Api, selector: str = "") -> list[V1Pod]:
    """Those with the labels of ``selector``, the newest last."""
    return _listed(CoreV1Api(api).list_namespaced_pod, api.namespace, selector)


def jobs(api: Api, selector: str = "") -> list[V1Job]:
    """Those with the labels of ``selector``, the newest last."""
    return _listed(BatchV1Api(api).list_namespaced_job, api.namespace, selector)


def services(api: Api, selector: str) -> list[V1Deployment]:
    """The Kubernetes Deployments."""
    return _listed(AppsV1Api(api).list_namespaced_deployment, api.namespace, selector)


def newest_pod(api: Api, selector: str) -> V1Pod | None:
    """None if there is none. A pod that was pruned takes its time to end."""
    return next(reversed(pods(api, selector)), None)


def _listed(call: Any, namespace: str, selector: str) -> list[Any]:
    items = call(namespace, label_selector=selector).items
    return sorted(items, key=lambda item: str(item.metadata.creation_timestamp))


def pods_of(api: Api, job: V1Job) -> list[V1Pod]:
    """The Job's pods, the newest last."""
    return pods(api, f"{JOB_LABEL}={job.metadata.name}")


def condition(existing: Any, kind: str) -> Any:
    """The condition of an object that holds; None if it does not."""
    for each in existing.status.conditions or []:
        if each.type == kind and each.status == "True":
            return each
    return None


def failure(job: V1Job) -> str | None:
    """Why Kubernetes has given the Job up; None if it has not."""
    failed = condition(job, "Failed")
    return ": ".join(filter(None, (failed.reason, failed.message))) if failed else None


def find(api: Api, manifest: Manifest) -> Any:
    """The object of that kind and name; None if there is none."""
    return ask(_call(api, "read", manifest), manifest["metadata"]["name"], *_namespace(manifest))


def create(api: Api, manifest: Manifest) -> None:
    """Makes an object so that ``kubectl apply`` recognises it."""
    applied = json.dumps(manifest, separators=(",", ":")) + "\n"
    annotations = {**manifest["metadata"].get("annotations", {}), LAST_APPLIED: applied}
    body = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    _call(api, "create", manifest)(*_namespace(manifest), body)


def replace(api: Api, existing: V1Pod | V1Job) -> None:
    """Deletes an object and makes it again as it was applied.

    As ``kubectl replace --force --save-config`` does with what ``view-last-applied`` shows.
    """
    name = existing.metadata.name
    applied = (existing.metadata.annotations or {}).get(LAST_APPLIED)
    if applied is None:
        raise DeploymentError(f"{name} was not applied by a deploy: it cannot be made again")
    manifest: Manifest = json.loads(applied)
    _call(api, "delete", manifest)(name, api.namespace, propagation_policy="Foreground")
    deadline = time.monotonic() + _GONE_SECONDS
    while find(api, manifest):
        if time.monotonic() > deadline:
            raise DeploymentError(f"{name} was deleted, but has not ended for five minutes")
        time.sleep(0.5)
    create(api, manifest)


def _namespace(manifest: Manifest) -> list[str]:
    """The namespace, as an argument of the client's functions; none for what is in none."""
    return [each for key, each in manifest["metadata"].items() if key == "namespace"]


def _call(api: Api, verb: str, manifest: Manifest) -> Any:
    """The client's function for that kind, by its name.

    As ``kubernetes.utils.create_from_yaml`` looks it up (kubernetes 35.0.0).
    """
    group, _, version = manifest["apiVersion"].rpartition("/")
    client_group = group.removesuffix(".k8s.io").title().replace(".", "") or "Core"
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", manifest["kind"]).lower()
    scope = "namespaced_" if _namespace(manifest) else ""
    typed = getattr(kubernetes.client, f"{client_group}{version.capitalize()}Api")
    return getattr(typed(api), f"{verb}_{scope}{kind}")
