from __future__ import annotations

import boto3
import pytest
from werkzeug.wrappers import Response

from spectap.aws import secret
from spectap.errors import SecretError
from tests.spectap.aws.embedded import REGION, Aws, Clock

KEY = "sesame"


def test_reads_the_text(aws: Aws, clock: Clock) -> None:
    boto3.client("secretsmanager", region_name=REGION).create_secret(Name="a/b", SecretString=KEY)
    assert secret.read("a/b", REGION, clock.sleep) == KEY


def test_waits_while_the_service_fails(aws: Aws, clock: Clock) -> None:
    boto3.client("secretsmanager", region_name=REGION).create_secret(Name="a/b", SecretString=KEY)
    failures = iter([Response(status=503), Response(status=503)])
    aws.before = lambda _: next(failures, None)
    assert secret.read("a/b", REGION, clock.sleep) == KEY
    assert next(failures, None) is None


def test_a_secret_that_is_not_there_is_named_with_what_to_check(aws: Aws, clock: Clock) -> None:
    with pytest.raises(SecretError, match=r"^secret a/b: .*; check that its stack is deployed$"):
        secret.read("a/b", REGION, clock.sleep)
