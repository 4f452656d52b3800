from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.matrix import FIRST_START, SWEEP, THREE_VARIANTS, VANILLA
from tests.stacks.templates import granted, listed, statements
from tests.synthesis import Synthesised

# Who may do what: service account, action, prefix.
ALLOWED = {
    *{
        ("Prepare", f"s3:{action}", f"{prefix}/*")
        for action in ("GetObject", "PutObject", "AbortMultipartUpload")
        for prefix in ("models", "compiled")
    },
    ("Serve", "s3:GetObject", "models/*"),
    ("Serve", "s3:GetObject", "compiled/*"),
    ("Benchmark", "s3:GetObject", "results/*"),
    ("Benchmark", "s3:PutObject", "results/*"),
    ("Benchmark", "s3:AbortMultipartUpload", "results/*"),
    ("Quality", "s3:PutObject", "results/*"),
    ("Quality", "s3:AbortMultipartUpload", "results/*"),
}


def test_bucket_refuses_plain_http_and_old_tls(synthesised: Synthesised) -> None:
    ((_, policy),) = synthesised.resources("AWS::S3::BucketPolicy")
    conditions = [
        statement["Condition"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
    ]
    assert {"Bool": {"aws:SecureTransport": "false"}} in conditions
    assert {"NumericLessThan": {"s3:TlsVersion": 1.2}} in conditions


def test_each_consumer_may_touch_its_own_objects_and_no_others(synthesised: Synthesised) -> None:
    assert granted(synthesised) == ALLOWED


def test_services_that_compile_at_their_first_start_may_write_compiled_graphs(
    of_matrix: Callable[[str], Synthesised],
) -> None:
    assert granted(of_matrix(FIRST_START)) == ALLOWED | {
        ("Serve", "s3:PutObject", "compiled/*"),
        ("Serve", "s3:AbortMultipartUpload", "compiled/*"),
    }


def test_listing_is_confined_to_prefixes(synthesised: Synthesised) -> None:
    listing = {
        account: set(listed(statement["Condition"]["StringLike"]["s3:prefix"]))
        for account, statement in statements(synthesised)
        if "s3:ListBucket" in listed(statement["Action"])
    }
    assert listing == {
        "Prepare": {"models/*", "compiled/*"},
        "Serve": {"models/*", "compiled/*"},
        "Benchmark": {"results/*"},
    }


@pytest.mark.parametrize(
    ("name", "have"),
    [
        (THREE_VARIANTS, {"Serve", "Benchmark", "Quality"}),
        (SWEEP, {"Sweep"}),
        ("article", set()),
        (VANILLA, set()),
    ],
)
def test_the_services_key_is_read_by_those_who_serve_and_those_who_ask(
    name: str, have: set[str], of_matrix: Callable[[str], Synthesised]
) -> None:
    synthesised = of_matrix(name)
    secrets = dict(synthesised.resources("AWS::SecretsManager::Secret"))
    readers = {
        account: statement
        for account, statement in statements(synthesised)
        if any(action.startswith("secretsmanager:") for action in listed(statement["Action"]))
    }
    assert readers.keys() == have
    for statement in readers.values():
        ((logical_id, secret),) = secrets.items()
        assert statement["Action"] == "secretsmanager:GetSecretValue"
        assert statement["Resource"] == {"Ref": logical_id}
        # It is made by Secrets Manager: no template has it.
        assert "SecretString" not in secret["Properties"]
        assert secret["Properties"]["GenerateSecretString"]["PasswordLength"] >= 32


def test_metrics_go_into_the_benchmark_s_own_namespace_only(synthesised: Synthesised) -> None:
    ((account, statement),) = (
        (account, statement)
        for account, statement in statements(synthesised)
        if "cloudwatch:PutMetricData" in listed(statement["Action"])
    )
    assert account == "Benchmark"
    assert statement["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Qwen/LLMPerf"}}
