"""The key that endpoints ask for, out of Secrets Manager."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import boto3

from spectap.aws.retry import AWS_ERRORS, ONE_ATTEMPT, Sleep, error_code, explain, persist
from spectap.errors import SecretError

_CHECKS: Final = {
    "AccessDeniedException": "check that the pod's role may read it",
    "ResourceNotFoundException": "check that its stack is deployed",
}
_CHECK: Final = "check the secret, the region and the pod's role"


def read(name: str, region: str, sleep: Sleep = time.sleep) -> str:
    """The text of a secret. Retries for five minutes where the service fails. Raises SecretError,
    which does not have the text."""
    client = boto3.client("secretsmanager", region_name=region, config=ONE_ATTEMPT)
    try:
        answer = persist(partial(client.get_secret_value, SecretId=name), sleep)
    except AWS_ERRORS as error:
        check = _CHECKS.get(error_code(error), _CHECK)
        raise SecretError(f"secret {name}: {explain(error, check)}") from None
    return str(answer["SecretString"])
