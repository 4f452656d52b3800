"""The account that the credentials belong to, and clients for it."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any, Final

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.loaders import Loader, create_loader
from botocore.parsers import ResponseParserError

from deployment.errors import Denied, DeploymentError

_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_ACTION: Final = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z0-9]+)")


def client(service: str, region: str) -> Any:
    """A client with the credentials that the CDK CLI would find, too."""
    with in_words():
        core = botocore.session.get_session()
        core.register_component("data_loader", _descriptions())
        # A session of its own: credentials may have been renewed since the last one.
        return core.create_client(service, region_name=region)


def account_id(region: str) -> str:
    """The account that the credentials belong to. Raises DeploymentError."""
    with in_words():
        found: str = client("sts", region).get_caller_identity()["Account"]
    return found


@functools.cache
def _descriptions() -> Loader:
    """The services' descriptions, each read once: that takes longer than most calls."""
    return create_loader()


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """Turns errors of boto3 into a DeploymentError of one line, a refused call into Denied."""
    try:
        yield
    except NoCredentialsError:
        raise DeploymentError(
            "AWS: no credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and its like"
        ) from None
    except ClientError as error:
        if error.response["Error"]["Code"] in _DENIED:
            raise Denied(_action(error)) from None
        raise DeploymentError(f"AWS: {error}") from None
    except (BotoCoreError, ResponseParserError) as error:  # the latter: a proxy's page, say
        raise DeploymentError(f"AWS: {' '.join(str(error).split())}") from None


def _action(error: ClientError) -> str:
    """The action that was denied. Most services name it; the others' errors have its operation."""
    named = _ACTION.search(str(error))
    return named[1] if named else error.operation_name
