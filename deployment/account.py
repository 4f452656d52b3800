"""The account that the credentials belong to, and clients for it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.loaders import Loader, create_loader

from deployment.errors import DeploymentError


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
    """Turns errors of boto3 into a DeploymentError of one line."""
    try:
        yield
    except NoCredentialsError:
        raise DeploymentError(
            "AWS: no credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and its like"
        ) from None
    except (BotoCoreError, ClientError) as error:
        raise DeploymentError(f"AWS: {error}") from None
