"""The state machine that ends the nodes: started, refused, and out of reach for a while."""

from __future__ import annotations

import json

import boto3
import pytest

from spectap.aws.retry import PATIENCE_SECONDS
from spectap.aws.stopper import Stopper
from spectap.errors import StopError
from tests.spectap.aws.embedded import REGION, Aws, Clock, failure


def state_machine() -> str:
    """ARN of one that does nothing."""
    trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}}]}
    role = boto3.client("iam", region_name=REGION).create_role(
        RoleName="stop", AssumeRolePolicyDocument=json.dumps(trust | {"Version": "2012-10-17"})
    )["Role"]["Arn"]
    definition = {"StartAt": "Stop", "States": {"Stop": {"Type": "Succeed"}}}
    arn: str = boto3.client("stepfunctions", region_name=REGION).create_state_machine(
        name="article-stop", definition=json.dumps(definition), roleArn=role
    )["stateMachineArn"]
    return arn


def executions(arn: str) -> int:
    client = boto3.client("stepfunctions", region_name=REGION)
    return len(client.list_executions(stateMachineArn=arn)["executions"])


def test_it_is_started(aws: Aws, clock: Clock) -> None:
    arn = state_machine()
    aws.behave()
    Stopper(arn, REGION, clock.sleep).start()
    assert executions(arn) == 1
    assert clock.pauses == []


def test_it_is_tried_again_while_it_is_out_of_reach(aws: Aws, clock: Clock) -> None:
    arn = state_machine()
    aws.before = lambda _: failure(503, "ServiceUnavailable") if clock.now < 20 else None
    Stopper(arn, REGION, clock.sleep).start()
    assert executions(arn) == 1
    assert clock.now >= 20


def test_it_is_given_up_after_some_minutes(aws: Aws, clock: Clock) -> None:
    aws.before = lambda _: failure(503, "ServiceUnavailable")
    with pytest.raises(StopError, match=r"^arn:x: failing for 5 minutes: "):
        Stopper("arn:x", REGION, clock.sleep).start()
    assert clock.now <= PATIENCE_SECONDS


def test_one_that_is_not_there_is_named_with_what_to_check(aws: Aws, clock: Clock) -> None:
    assert aws
    arn = f"arn:aws:states:{REGION}:123456789012:stateMachine:article-stop"
    with pytest.raises(StopError) as refused:
        Stopper(arn, REGION, clock.sleep).start()
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{arn}: ")
    assert line.endswith("; check that its stack is deployed")
    assert clock.pauses == []
