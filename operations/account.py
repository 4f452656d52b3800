"""An experiment in an account and region: credentials, clients of AWS, its stacks, its bucket."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from botocore.loaders import create_loader
from botocore.parsers import ResponseParserError

from charts.names import bucket_name
from experiment import Experiment, load
from spectap.names import COMPLETE

T = TypeVar("T")

_LOADER: Final = create_loader()
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_ACTION: Final = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z0-9]+)")

LARGEST: Final = 16 << 20
"""Bytes of an object that is read into memory: pods may write any to the bucket."""

_MISSING: Final = frozenset(
    {
        *("404", "NoSuchKey", "NoSuchBucket", "ParameterNotFound", "NoSuchResourceException"),
        *("ResourceNotFoundException", "RepositoryNotFoundException", "ImageNotFoundException"),
        *("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"),
    }
)
"""How services say that there is no such thing."""


class DeploymentError(Exception):
    """The command cannot be carried out in this account. One line.

    Whatever asks AWS or the cluster may raise it. ``code`` is AWS's name of the error, such as
    ``NoSuchKey``, or the status of Kubernetes' answer, such as ``404``; else empty.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class Denied(DeploymentError):
    """The credentials may not make a call."""

    def __init__(self, action: str) -> None:
        super().__init__(f"AWS: these credentials may not call {action}")
        self.action = action
        """IAM's name of it, e.g. ``ec2:DescribeInstances``."""


@dataclass(frozen=True)
class Deployment:
    """An experiment in an account and region: what every command acts on."""

    experiment: Experiment
    file: str
    """The path that the user gave."""
    account: str
    """Twelve digits, or ``none`` where synthesis is for any account."""
    _clients: dict[tuple[str, str], Client] = field(default_factory=dict, compare=False, repr=False)
    _outputs: dict[str, dict[str, str]] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, file: str) -> Deployment:
        """Reads the experiment and asks whose credentials these are. Raises ExperimentError."""
        experiment = load(file)
        identity = Client("sts", experiment.aws.region).get_caller_identity()
        return cls(experiment, file, identity["Account"])

    @property
    def region(self) -> str:
        return self.experiment.aws.region

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def cluster_name(self) -> str:
        return self.experiment.cluster_name

    @property
    def headline(self) -> str:
        return f"experiment {self.name} ({self.file}), account {self.account}, {self.region}"

    def client(self, service: str, region: str | None = None) -> Client:
        key = service, region or self.region
        # To make one takes longer than most calls.
        if key not in self._clients:
            self._clients[key] = Client(*key)
        return self._clients[key]

    def stack(self, name: str, region: str | None = None) -> dict[str, Any] | None:
        """CloudFormation's description of it; None if the account does not have it."""
        try:
            cloudformation = self.client("cloudformation", region)
            (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        except DeploymentError as error:
            # CloudFormation has no error code for a stack that does not exist.
            if "does not exist" in str(error):
                return None
            raise
        return None if stack["StackStatus"] == "DELETE_COMPLETE" else dict(stack)

    def outputs(self, label: str) -> dict[str, str]:
        """Outputs of the stack with this label, such as ``trainium``; none without the stack."""
        if self._outputs and label in self._outputs:
            return self._outputs[label]
        stack = self.stack(f"{self.name}-{label}") or {}
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
        if self._outputs is not None:
            self._outputs[label] = outputs
        return outputs

    def asking_once(self) -> Deployment:
        """A copy for a command that deploys nothing: it asks for a stack's outputs once."""
        return dataclasses.replace(self, _outputs={})


class Bucket:
    """The experiment's. It may exist without any stack, or not at all."""

    def __init__(self, deployment: Deployment) -> None:
        self.name = bucket_name(deployment.experiment, deployment.account)
        self._client = deployment.client("s3")

    def incomplete(self, prefixes: Iterable[str]) -> list[str]:
        return [prefix for prefix in prefixes if not self.has(f"{prefix}{COMPLETE}")]

    def has(self, key: str) -> bool:
        return ask(self._client.head_object, Bucket=self.name, Key=key) is not None

    def read(self, key: str) -> bytes | None:
        """None if there is no such object, or it is above ``LARGEST``."""
        answer = ask(self._client.get_object, Bucket=self.name, Key=key)
        if answer is None or answer["ContentLength"] > LARGEST:
            return None
        with aws_errors():
            content: bytes = answer["Body"].read()
        return content

    def write(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def entries(self, prefix: str) -> list[dict[str, Any]]:
        """The objects below ``prefix``; none without the bucket."""
        listed = self._client.listed
        return ask(listed, "list_objects_v2", "Contents", Bucket=self.name, Prefix=prefix) or []


class Client:
    """A service in a region. Each operation is a method, as in boto3; it raises DeploymentError."""

    def __init__(self, service: str, region: str) -> None:
        self._boto = client(service, region)

    def __getattr__(self, operation: str) -> Any:
        return aws_errors()(getattr(self._boto, operation))

    def pages(self, operation: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        with aws_errors():
            yield from self._boto.get_paginator(operation).paginate(**arguments)

    def listed(self, operation: str, key: str, **arguments: Any) -> list[Any]:
        """The entries that all pages of the answer have at ``key``."""
        pages = self.pages(operation, **arguments)
        return [entry for page in pages for entry in page.get(key, [])]


def client(service: str, region: str) -> Any:
    """A client with the credentials that the CDK CLI would use."""
    with aws_errors():
        core = botocore.session.get_session()
        # The services' descriptions, each read once: that takes longer than most calls.
        core.register_component("data_loader", _LOADER)
        # A session per client: credentials may have been renewed since the last one.
        return core.create_client(service, region_name=region)


def ask(call: Callable[..., T], *words: str, **arguments: Any) -> T | None:
    """The answer of AWS or Kubernetes; None if it does not have the thing asked for."""
    try:
        return call(*words, **arguments)
    except DeploymentError as error:
        if error.code in _MISSING:
            return None
        raise


@contextlib.contextmanager
def aws_errors() -> Iterator[None]:
    """Turns errors of boto3 into a DeploymentError of one line, a refused call into Denied."""
    try:
        yield
    except NoCredentialsError:
        raise DeploymentError(
            "AWS: no credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and its like"
        ) from None
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in _DENIED:
            named = _ACTION.search(str(error))  # in the words of most services
            raise Denied(named[1] if named else error.operation_name) from None
        raise DeploymentError(f"AWS: {error}", code) from None
    except (BotoCoreError, ResponseParserError) as error:  # the latter: a proxy's page, say
        raise DeploymentError(f"AWS: {' '.join(str(error).split())}") from None
