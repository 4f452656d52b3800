"""What EKS's authenticator does: whose token is it, and what may they do in the cluster?

A token is a signed request (``deployment.cluster.token``). aws-iam-authenticator sends it to STS,
which checks the signature and says whose it is. moto's STS checks none, so that is done here. Then
the cluster's access entries say which groups the role has (kubernetes-sigs/aws-iam-authenticator,
v0.7.8, ``pkg/token/token.go``; EKS User Guide, "Access policy permissions").
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.sts.models import AssumedRole, sts_backends
from moto.utilities.utils import get_partition

from rehearsal.aws.mended.base import Where
from rehearsal.aws.mended.clusters import access_entries

_PREFIX: Final = "k8s-aws-v1."
_HEADER: Final = "x-k8s-aws-id"
_GOOD_FOR: Final = datetime.timedelta(minutes=15)
_GROUPS: Final = {
    "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy": "system:masters"
}
"""The access policy that the stacks use. EKS grants it by an authorizer of its own."""


class Refused(Exception):
    """Nobody's token, or somebody's who has no access entry."""


def review(cluster: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answers a TokenReview of the API server (authentication.k8s.io/v1)."""
    try:
        role, groups = _who(cluster, asked["spec"]["token"])
        status: dict[str, Any] = {
            "authenticated": True,
            "user": {"username": role, "uid": role, "groups": groups},
        }
    except Refused as why:
        status = {"authenticated": False, "error": str(why)}
    return {"apiVersion": asked["apiVersion"], "kind": "TokenReview", "status": status}


def _who(cluster: str, token: str) -> tuple[str, list[str]]:
    """The role and its groups. Raises Refused."""
    try:
        padded = token.removeprefix(_PREFIX) + "=="
        url = base64.urlsafe_b64decode(padded).decode()
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        scope = query["X-Amz-Credential"].split("/")
        region = scope[2]
        signed = datetime.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%S%z")
    except (ValueError, KeyError, IndexError) as error:
        raise Refused(f"no token of EKS: {error}") from None
    if not token.startswith(_PREFIX) or query.get("Action") != "GetCallerIdentity":
        raise Refused("no token of EKS")
    if not abs(datetime.datetime.now(datetime.UTC) - signed) < _GOOD_FOR:
        raise Refused("the token has expired")
    role = _role(scope[0], region)
    _check(url, query, role, cluster)
    for entry in access_entries(Where(role.account_id, region), cluster):
        if entry["PrincipalArn"] == role.role_arn:
            policies = [policy["PolicyArn"] for policy in entry.get("AccessPolicies", [])]
            return role.role_arn, [_GROUPS[arn] for arn in policies if arn in _GROUPS]
    raise Refused(f"{role.role_arn} has no access entry in {cluster}")


def _role(key: str, region: str) -> AssumedRole:
    """The role that was assumed with these credentials. Raises Refused."""
    for backends in sts_backends.values():
        sts = backends[get_partition(region)]
        if role := sts.get_assumed_role_from_access_key(key):
            return role
    raise Refused(f"no role was assumed with the key {key}")


def _check(url: str, query: Mapping[str, str], role: AssumedRole, cluster: str) -> None:
    """Whether the role's secret signed it, for this cluster. Raises Refused."""
    plain, _, signature = url.partition("&X-Amz-Signature=")
    request = AWSRequest("GET", plain, headers={_HEADER: cluster})
    request.context["timestamp"] = query["X-Amz-Date"]
    secret = Credentials(role.access_key_id, role.secret_access_key, role.session_token)
    signer = SigV4QueryAuth(secret, "sts", query["X-Amz-Credential"].split("/")[2])
    to_sign = signer.string_to_sign(request, signer.canonical_request(request))
    if signer.signature(to_sign, request) != signature:
        raise Refused("the signature is not the role's, or not for this cluster")
