"""Who is let into the cluster: a role with an access entry, by a token that it signed just now."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import urllib3

from deployment.account import Deployment
from deployment.cluster import token
from rehearsal.aws.client import Aws
from rehearsal.aws.own_calls import AUTHENTICATE
from tests.rehearsal.account.conftest import account, place
from tests.rehearsal.account.stacks import outputs

__all__ = ["account", "place"]


def reviewed(aws: Aws, cluster: str, bearer: str) -> dict[str, Any]:
    """What the API server is answered."""
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": bearer},
    }
    answer = urllib3.request("POST", f"{aws.url}{AUTHENTICATE}{cluster}", json=review)
    found: dict[str, Any] = answer.json()["status"]
    return found


def administrator(aws: Aws, place: Deployment) -> str:
    return outputs(aws, f"{place.name}-cluster")["AdministratorRole"]


def test_the_administrators_token_is_a_masters(account: Aws, place: Deployment) -> None:
    role = administrator(account, place)
    found = reviewed(account, place.name, token(place, role))
    assert found["authenticated"]
    assert found["user"]["username"] == role
    assert found["user"]["groups"] == ["system:masters"]


def test_a_role_without_an_access_entry_is_refused(account: Aws, place: Deployment) -> None:
    guard = outputs(account, f"{place.name}-trainium")["GuardRole"]
    found = reviewed(account, place.name, token(place, guard))
    assert not found["authenticated"]
    assert "has no access entry in article" in found["error"]


def test_a_token_for_another_cluster_is_refused(account: Aws, place: Deployment) -> None:
    bearer = token(place, administrator(account, place))
    assert "not for this cluster" in reviewed(account, "other", bearer)["error"]


def test_a_changed_token_is_refused(account: Aws, place: Deployment) -> None:
    bearer = token(place, administrator(account, place))
    url = base64.urlsafe_b64decode(bearer.removeprefix("k8s-aws-v1.") + "==").decode()
    changed = url.replace("X-Amz-Expires=60", "X-Amz-Expires=61")
    assert changed != url
    again = "k8s-aws-v1." + base64.urlsafe_b64encode(changed.encode()).decode().rstrip("=")
    assert "the signature is not the role's" in reviewed(account, place.name, again)["error"]


@pytest.mark.parametrize("bearer", ["", "k8s-aws-v1.", "k8s-aws-v1.aGVsbG8", "anything", "é"])
def test_what_is_no_token_is_refused(account: Aws, place: Deployment, bearer: str) -> None:
    found = reviewed(account, place.name, bearer)
    assert not found["authenticated"]
    assert "no token of EKS" in found["error"]
