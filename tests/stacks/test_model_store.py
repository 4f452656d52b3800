from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.matrix import FIRST_START, SWEEP, THREE_VARIANTS, VANILLA
from tests.stacks.templates import granted, listed, statements
from tests.synthesis import Synthesised

WRITES: Final = ("PutObject", "AbortMultipartUpload")


def may(account: str, actions: tuple[str, ...], *prefixes: str) -> set[tuple[str, str, str]]:
    """Service account, action, prefix."""
    return {(account, f"s3:{action}", f"{prefix}/*") for action in actions for prefix in prefixes}


PREPARE: Final = may("Prepare", ("GetObject", *WRITES), "models", "compiled")
SERVICES: Final = (
    PREPARE
    | may("Serve", ("GetObject",), "models", "compiled")
    | may("Benchmark", ("GetObject", *WRITES), "results")
    | may("Quality", WRITES, "results")
)


def isolated(account: str) -> set[tuple[str, str, str]]:
    """One role fetches, serves and measures."""
    reads = may(account, ("GetObject",), "models", "compiled", "results")
    return PREPARE | reads | may(account, WRITES, "results")


def test_bucket_refuses_plain_http_and_old_tls(synthesised: Synthesised) -> None:
    ((_, policy),) = synthesised.resources("AWS::S3::BucketPolicy")
    conditions = [
        statement["Condition"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
    ]
    assert {"Bool": {"aws:SecureTransport": "false"}} in conditions
    assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in conditions


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("article", SERVICES),
        # A service that compiles at its first start fills the cache.
        (FIRST_START, SERVICES | may("Serve", WRITES, "compiled")),
        (SWEEP, isolated("Sweep")),
        (VANILLA, isolated("Offline")),
    ],
)
def test_each_consumer_may_touch_its_own_objects_and_no_others(
    name: str, expected: set[tuple[str, str, str]], of_matrix: Callable[[str], Synthesised]
) -> None:
    synthesised = of_matrix(name)
    assert granted(synthesised) == expected
    roles = {account.lower() for account, _, _ in expected}
    assert {o["metadata"]["name"] for o in synthesised.objects("ServiceAccount")} == roles
    identities = synthesised.resources("AWS::EKS::PodIdentityAssociation")
    assert {each["Properties"]["ServiceAccount"] for _, each in identities} == roles
    confined = {"StringEquals": {"cloudwatch:namespace": "Qwen/LLMPerf"}}
    assert {
        account: statement["Condition"]
        for account, statement in statements(synthesised)
        if "cloudwatch:PutMetricData" in listed(statement["Action"])
    } == {account: confined for account in ("Benchmark", "Sweep") if account.lower() in roles}


def test_listing_is_confined_to_prefixes(synthesised: Synthesised) -> None:
    listing = {
        account: set(listed(statement["Condition"]["StringLike"]["s3:prefix"]))
        for account, statement in statements(synthesised)
        if "s3:ListBucket" in listed(statement["Action"])
    }
    store = {"models/*", "compiled/*"}
    assert listing == {"Prepare": store, "Serve": store, "Benchmark": {"results/*"}}


@pytest.mark.parametrize(
    ("name", "readers"),
    [
        (THREE_VARIANTS, {"Serve", "Benchmark", "Quality"}),
        (SWEEP, {"Sweep"}),
        ("article", set()),
    ],
)
def test_the_services_key_is_read_by_those_who_serve_and_those_who_ask(
    name: str, readers: set[str], of_matrix: Callable[[str], Synthesised]
) -> None:
    synthesised = of_matrix(name)
    secrets = dict(synthesised.resources("AWS::SecretsManager::Secret"))
    reading = {
        account: statement
        for account, statement in statements(synthesised)
        if any(action.startswith("secretsmanager:") for action in listed(statement["Action"]))
    }
    assert reading.keys() == readers
    for statement in reading.values():
        ((logical_id, secret),) = secrets.items()
        assert statement["Action"] == "secretsmanager:GetSecretValue"
        assert statement["Resource"] == {"Ref": logical_id}
        # It is made by Secrets Manager: no template has it.
        assert "SecretString" not in secret["Properties"]
        assert secret["Properties"]["GenerateSecretString"]["PasswordLength"] >= 32
