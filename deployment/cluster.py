"""The Kubernetes API of the experiment's cluster, with the rights of its administrator role."""

from __future__ import annotations

import base64
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

import boto3
from botocore.exceptions import ClientError
from botocore.signers import RequestSigner
from kubernetes.client import ApiClient, ApiException, Configuration
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from deployment.account import in_words
from deployment.errors import DeploymentError
from deployment.place import Place

ADDRESS_VARIABLE: Final = "KUBERNETES_API"
"""Environment variable: where the API answers in place of its own address, e.g. a forwarded port
(docs/runbook.md). The certificate is still checked against the API's own name."""
ADMINISTRATOR_OUTPUT: Final = "AdministratorRole"
"""Output of the cluster stack: ARN of the role that kubectl assumes."""

_TOKEN_PREFIX: Final = "k8s-aws-v1."
_CLUSTER_HEADER: Final = "x-k8s-aws-id"
_SIGNED_SECONDS: Final = 60
_RENEWED_SECONDS: Final = 600
"""A token is good for 15 minutes."""


class NoCluster(DeploymentError):
    """The account has no such cluster, or not yet."""


class Unreachable(DeploymentError):
    """The cluster's API does not answer."""


@contextlib.contextmanager
def connected(place: Place) -> Iterator[ApiClient]:
    """A client for the typed APIs of the ``kubernetes`` package. Its token renews itself.

    Raises NoCluster or DeploymentError.
    """
    found = _describe(place)
    tokens = _Tokens(place, administrator(place))
    with tempfile.NamedTemporaryFile(suffix=".crt") as authority:
        authority.write(base64.b64decode(found["certificateAuthority"]["data"]))
        authority.flush()
        its = Configuration()
        its.host = os.environ.get(ADDRESS_VARIABLE) or found["endpoint"]
        # A private API drops what comes from elsewhere, so that each try takes its whole time.
        its.retries = Retry(total=3, connect=1)
        its.ssl_ca_cert = authority.name
        its.tls_server_name = found["endpoint"].removeprefix("https://").partition(":")[0]
        its.api_key_prefix["authorization"] = "Bearer"
        # The hook is asked only where there is a key already (kubernetes 35.0.0, configuration.py,
        # auth_settings).
        its.api_key["authorization"] = ""
        its.refresh_api_key_hook = lambda asked: asked.api_key.update(
            authorization=tokens.current()
        )
        with ApiClient(its) as client:
            yield client


def administrator(place: Place) -> str:
    """ARN of the role that administers the cluster. Raises NoCluster or DeploymentError."""
    name = f"{place.name}-cluster"
    with in_words():
        try:
            (stack,) = place.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                raise NoCluster(f"there is no stack {name} in {place.region}") from None
            raise
    for output in stack.get("Outputs", []):
        if output["OutputKey"] == ADMINISTRATOR_OUTPUT:
            arn: str = output["OutputValue"]
            return arn
    raise NoCluster(f"stack {name} is not complete: it has no output {ADMINISTRATOR_OUTPUT}")


class _Tokens:
    """The current token, made anew after ten minutes."""

    def __init__(self, place: Place, role: str) -> None:
        self._place, self._role = place, role
        self._token, self._made = "", float("-inf")

    def current(self) -> str:
        """Called before each request."""
        if time.monotonic() - self._made > _RENEWED_SECONDS:
            self._token, self._made = token(self._place, self._role), time.monotonic()
        return self._token


def token(place: Place, role: str) -> str:
    """A bearer token for the cluster: a signed request that says who asks.

    As ``aws eks get-token`` makes it (aws-cli 1.46.3, ``customizations/eks/get_token.py``).
    """
    with in_words():
        lent = place.client("sts").assume_role(RoleArn=role, RoleSessionName="experiment")
    its = lent["Credentials"]
    session = boto3.Session(
        its["AccessKeyId"], its["SecretAccessKey"], its["SessionToken"], place.region
    )
    sts = session.client("sts")
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        place.region,
        "sts",
        "v4",
        session.get_credentials(),
        session.events,
    )
    query = urlencode({"Action": "GetCallerIdentity", "Version": "2011-06-15"})
    asked = {
        "method": "GET",
        "url": f"{sts.meta.endpoint_url}/?{query}",
        "body": {},
        "headers": {_CLUSTER_HEADER: place.name},
        "context": {},
    }
    signed = signer.generate_presigned_url(
        asked, region_name=place.region, expires_in=_SIGNED_SECONDS, operation_name=""
    )
    return _TOKEN_PREFIX + base64.urlsafe_b64encode(signed.encode()).decode().rstrip("=")


@contextlib.contextmanager
def kubernetes_in_words() -> Iterator[None]:
    """Turns errors of the Kubernetes client into a DeploymentError of one line."""
    try:
        yield
    except ApiException as error:
        raise DeploymentError(f"Kubernetes: {error.status} {error.reason}") from None
    except HTTPError as error:
        why = getattr(error, "reason", None) or error
        raise Unreachable(f"Kubernetes: the API does not answer: {why}") from None


def _describe(place: Place) -> dict[str, Any]:
    with in_words():
        try:
            found: dict[str, Any] = place.client("eks").describe_cluster(name=place.name)["cluster"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                raise NoCluster(f"there is no cluster {place.name} in {place.region}") from None
            raise
    if found["status"] not in ("ACTIVE", "UPDATING"):
        raise NoCluster(f"cluster {place.name} is {found['status']}")
    return found
