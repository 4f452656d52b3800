"""Ends the nodes that a run was measured on: starts the state machine that scales them to 0."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import boto3

from spectap.aws.retry import AWS_ERRORS, ONE_ATTEMPT, Sleep, error_code, explain, persist
from spectap.errors import StopError

_CHECKS: Final = {
    "AccessDeniedException": "check that the pod's role may start it",
    "StateMachineDoesNotExist": "check that its stack is deployed",
}
_CHECK: Final = "check the state machine and the pod's role"


class Stopper:
    """The state machine. Started twice, it asks twice for the same."""

    def __init__(self, arn: str, region: str, sleep: Sleep = time.sleep) -> None:
        self.arn, self._sleep = arn, sleep
        self._client = boto3.client("stepfunctions", region_name=region, config=ONE_ATTEMPT)

    def start(self) -> None:
        """Starts it. Retries for five minutes where Step Functions fails. Raises StopError."""
        start = partial(self._client.start_execution, stateMachineArn=self.arn)
        try:
            persist(start, self._sleep)
        except AWS_ERRORS as error:
            check = _CHECKS.get(error_code(error), _CHECK)
            raise StopError(f"{self.arn}: {explain(error, check)}") from None
