"""How the benchmark calls AWS: repeatedly, for minutes, where another attempt can help."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
)
from botocore.parsers import ResponseParserError

T = TypeVar("T")
Sleep = Callable[[float], None]

PATIENCE_SECONDS: Final = 300.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0

# The SDK's own retries are off. They last seconds, an outage lasts minutes, and they repeat calls
# that must not be repeated (see spectap.aws.cloudwatch).
ONE_ATTEMPT: Final = Config(
    connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 1, "mode": "standard"}
)

# The call, or a part of it, was sent, and no readable answer came.
NO_ANSWER: Final = (HTTPClientError, ResponseParserError, UnicodeDecodeError)

AWS_ERRORS: Final = (BotoCoreError, ClientError, *NO_ANSWER)

_BUSY: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)


def persist(call: Callable[[], T], sleep: Sleep, patience_seconds: float = PATIENCE_SECONDS) -> T:
    """Calls until it succeeds. Raises an error that another attempt cannot cure, or the last one.

    ``patience_seconds`` covers the pauses and the failed attempts.
    """
    spent = 0.0
    for pause in _pauses():
        began = time.monotonic()
        try:
            return call()
        except AWS_ERRORS as error:
            spent += time.monotonic() - began + pause
            if not is_transient(error) or spent > patience_seconds:
                raise
        sleep(pause)
    raise AssertionError("the pauses never end")


def _pauses() -> Iterator[float]:
    # Jitter, so that clients refused at the same moment do not return at the same moment.
    for attempt in itertools.count():
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(attempt, 16))
        yield pause * random.uniform(0.5, 1)


def is_transient(error: Exception) -> bool:
    """Whether the same call may succeed later: overload, a fault of the service or the network."""
    if isinstance(error, ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return status >= 500 or status == 429 or error_code(error) in _BUSY
    return isinstance(error, (ConnectionError, CredentialRetrievalError, *NO_ANSWER))


def error_code(error: Exception) -> str:
    """AWS's name for the error, such as ``AccessDenied``; empty where AWS did not answer."""
    response: dict[str, Any] = error.response if isinstance(error, ClientError) else {}
    return str(response.get("Error", {}).get("Code", ""))


def explain(error: Exception, check: str) -> str:
    """One line: the reason, and ``check`` if waiting would not help."""
    reason = " ".join(str(error).split()).rstrip(".")
    if is_transient(error):
        return f"failing for {PATIENCE_SECONDS / 60:.0f} minutes: {reason}"
    return f"{reason}; {check}"
