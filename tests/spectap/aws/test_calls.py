"""Calls of an AWS that refuses, fails and comes back; the key, and the end of the nodes."""

from __future__ import annotations

import json
from collections.abc import Callable

import boto3
import pytest

from spectap.aws.bucket import Bucket
from spectap.aws.calls import PATIENCE_SECONDS, read_secret, start_stopper
from spectap.errors import BenchmarkError, RunError, ShippingError
from tests.spectap.aws.embedded import ACCOUNT, BUCKET, REGION, Aws, Clock, failure, hang_up


@pytest.mark.parametrize(
    ("status", "code"),
    [(500, "InternalError"), (400, "RequestTimeout"), (429, "TooManyRequests")],
)
def test_an_outage_of_a_minute_is_waited_for(
    store: Aws, clock: Clock, status: int, code: str
) -> None:
    store.before = lambda _: failure(status, code) if clock.now < 60 else None
    assert Bucket(BUCKET, REGION, clock.sleep).complete("run-1") == set()
    assert 60 <= clock.now < 60 + 30


def test_broken_connections_and_closed_ports_are_waited_for(store: Aws, clock: Clock) -> None:
    bucket = Bucket(BUCKET, REGION, clock.sleep)
    store.after = lambda environ: hang_up(environ) if clock.now < 20 else None
    assert bucket.complete("run-1") == set()
    assert 20 <= clock.now < 60
    store.stop()
    clock.at[80] = store.start
    assert bucket.complete("run-1") == set()


def test_it_gives_up_after_minutes_of_growing_pauses_in_one_line(store: Aws, clock: Clock) -> None:
    store.before = lambda _: failure(503, "SlowDown")
    with pytest.raises(
        ShippingError, match=r"^s3://results-bucket: failing for 5 .*SlowDown[^\n]*$"
    ):
        Bucket(BUCKET, REGION, clock.sleep).complete("run-1")
    assert PATIENCE_SECONDS - 30 <= clock.now <= PATIENCE_SECONDS
    longest = [min(30, 0.5 * 2**number) for number in range(len(clock.pauses))]
    shares = [pause / most for pause, most in zip(clock.pauses, longest, strict=True)]
    assert all(0.5 <= share <= 1 for share in shares)
    assert len(set(shares)) > 1


MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:article-stop"


@pytest.mark.parametrize(
    ("ask", "error", "line"),
    [
        (
            lambda sleep: Bucket("no-such", REGION, sleep).complete("run-1"),
            ShippingError,
            r"s3://no-such: .*NoSuchBucket.*; check the configuration's bucket, and",
        ),
        (lambda sleep: read_secret("a/b", REGION, sleep), RunError, "secret a/b: .*its stack"),
        (
            lambda sleep: start_stopper(MACHINE, REGION, sleep),
            RunError,
            f"{MACHINE}: .*; check that its stack is deployed",
        ),
    ],
)
@pytest.mark.usefixtures("store")
def test_what_is_not_there_is_named_at_once_with_what_to_check(
    clock: Clock, ask: Callable[[object], object], error: type[BenchmarkError], line: str
) -> None:
    with pytest.raises(error, match=rf"^{line}[^\n]*$"):
        ask(clock.sleep)
    assert clock.pauses == []


def test_a_refusal_is_not_tried_again(store: Aws, clock: Clock) -> None:
    store.before = lambda _: failure(403, "AccessDenied")
    with pytest.raises(
        ShippingError, match=r"^s3://results-bucket: [^\n]*objects below results/ in it$"
    ):
        Bucket(BUCKET, REGION, clock.sleep).complete("run-1")
    assert (len(store.asked), clock.pauses) == (1, [])


@pytest.mark.usefixtures("store")
def test_missing_credentials_are_one_line(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with monkeypatch.context() as session:
        session.setattr(boto3, "DEFAULT_SESSION", None)  # which has credentials of its own
        with pytest.raises(ShippingError, match=r"Unable to locate credentials; check [^\n]*$"):
            Bucket(BUCKET, REGION, clock.sleep).complete("run-1")
    assert clock.pauses == []


def test_the_text_of_a_secret_is_read(aws: Aws, clock: Clock) -> None:
    client = boto3.client("secretsmanager", region_name=REGION)
    client.create_secret(Name="a/b", SecretString="sesame")
    assert read_secret("a/b", REGION, clock.sleep) == "sesame"


def test_the_state_machine_is_started(aws: Aws, clock: Clock) -> None:
    definition = {"StartAt": "Stop", "States": {"Stop": {"Type": "Succeed"}}}
    client = boto3.client("stepfunctions", region_name=REGION)
    arn = client.create_state_machine(
        name="article-stop",
        definition=json.dumps(definition),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/stop",
    )["stateMachineArn"]
    aws.before = lambda _: failure(503, "ServiceUnavailable") if clock.now < 20 else None
    start_stopper(arn, REGION, clock.sleep)
    assert len(client.list_executions(stateMachineArn=arn)["executions"]) == 1
