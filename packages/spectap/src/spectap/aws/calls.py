"""Calls AWS, and retries for minutes where another attempt can help.

Two services that a run calls only once are here, too: Secrets Manager and Step Functions.
"""

import random
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
)
from botocore.parsers import ResponseParserError

from spectap.errors import RunError, SpectapError

T = TypeVar("T")
Sleep = Callable[[float], None]

PATIENCE_SECONDS: Final = 300.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0

# The SDK's own retries are off. They last seconds, an outage lasts minutes, and they repeat calls
# that must not be repeated (see spectap.aws.cloudwatch).
_ONE_ATTEMPT: Final = Config(
    connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 1, "mode": "standard"}
)

# The call, or a part of it, was sent, and no readable answer came.
NO_ANSWER: Final = (HTTPClientError, ResponseParserError, UnicodeDecodeError)

AWS_ERRORS: Final = (BotoCoreError, ClientError, *NO_ANSWER)

_BUSY: Final = re.compile("LimitExceeded|RequestTimeout|SlowDown|Throttl|TooManyRequests")
"""Parts of the error codes by which AWS's services say that they are busy."""


class Service:
    """A client of one AWS service, with the wording of its failures.

    ``subject`` is what messages name. ``checks`` maps AWS's error codes to what the user should
    check; its empty code is for any other refusal.
    """

    def __init__(
        self,
        name: str,
        region: str | None,
        sleep: Sleep,
        *,
        subject: str,
        error: type[SpectapError],
        checks: Mapping[str, str],
    ) -> None:
        self.client: Any = boto3.client(name, region_name=region, config=_ONE_ATTEMPT)
        self._sleep, self._subject, self._error, self._checks = sleep, subject, error, checks

    def call(self, function: Callable[[], T]) -> T:
        """Calls until it succeeds, for at most five minutes. Raises the service's error."""
        spent = 0.0  # in pauses and failed attempts
        longest = _FIRST_PAUSE_SECONDS
        while True:
            # Jitter, so that clients refused at the same moment do not return at the same moment.
            pause = longest * random.uniform(0.5, 1)
            start = time.monotonic()
            try:
                return function()
            except AWS_ERRORS as error:
                spent += time.monotonic() - start + pause
                reason = " ".join(str(error).split()).rstrip(".")
                if not _is_transient(error):
                    check = self._checks.get(_code(error), self._checks[""])
                    raise self._error(f"{self._subject}: {reason}; {check}") from None
                if spent > PATIENCE_SECONDS:
                    outage = f"failing for {PATIENCE_SECONDS / 60:.0f} minutes"
                    raise self._error(f"{self._subject}: {outage}: {reason}") from None
            self._sleep(pause)
            longest = min(_LONGEST_PAUSE_SECONDS, 2 * longest)


def read_secret(name: str, region: str, sleep: Sleep = time.sleep) -> str:
    """The text of a secret in Secrets Manager. Raises RunError, which does not have the text."""
    checks = {
        "AccessDeniedException": "check that the pod's role may read it",
        "ResourceNotFoundException": "check that its stack is deployed",
        "": "check the secret, the region and the pod's role",
    }
    subject = f"secret {name}"
    service = Service(
        "secretsmanager", region, sleep, subject=subject, error=RunError, checks=checks
    )
    answer = service.call(partial(service.client.get_secret_value, SecretId=name))
    return str(answer["SecretString"])


def start_state_machine(arn: str, region: str, sleep: Sleep = time.sleep) -> None:
    """Starts the state machine that scales nodes to 0. Twice does no harm. Raises RunError."""
    checks = {
        "AccessDeniedException": "check that the pod's role may start it",
        "StateMachineDoesNotExist": "check that its stack is deployed",
        "": "check the state machine and the pod's role",
    }
    service = Service("stepfunctions", region, sleep, subject=arn, error=RunError, checks=checks)
    service.call(partial(service.client.start_execution, stateMachineArn=arn))


def _is_transient(error: Exception) -> bool:
    """Whether the same call may succeed later: overload, a fault of the service or the network."""
    if isinstance(error, ClientError):
        metadata: Mapping[str, Any] = error.response.get("ResponseMetadata", {})
        status = int(metadata.get("HTTPStatusCode", 0))
        return status >= 500 or status == 429 or bool(_BUSY.search(_code(error)))
    return isinstance(error, (ConnectionError, CredentialRetrievalError, *NO_ANSWER))


def _code(error: Exception) -> str:
    """AWS's name for the error, such as ``AccessDenied``; empty where AWS did not answer."""
    response: Mapping[str, Any] = error.response if isinstance(error, ClientError) else {}
    return str(response.get("Error", {}).get("Code", ""))
