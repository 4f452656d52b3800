"""Whose credentials these are, and whether their account is prepared for the CDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from botocore.exceptions import ClientError

from deployment.lifecycle import regions
from deployment.place import Place
from deployment.preflight.finding import Finding, ok, refused

BOOTSTRAP_VERSION: Final = 6
"""What the stacks of aws-cdk-lib need, as their assembly says (``requiresBootstrapStackVersion``).
A test compares."""
_PARAMETER: Final = "/cdk-bootstrap/hnb659fds/version"


def credentials(place: Place) -> Iterator[Finding]:
    """The account, and who acts on it."""
    arn = place.client("sts").get_caller_identity()["Arn"]
    yield ok("credentials", f"account {place.account}, {arn}")


def bootstrap(place: Place) -> Iterator[Finding]:
    """Of the experiment's region, and of its budget's."""
    for region in sorted(regions(place.experiment)):
        yield _bootstrapped(place, region)


def _bootstrapped(place: Place, region: str) -> Finding:
    subject, remedy = f"bootstrap {region}", f"make bootstrap EXPERIMENT={place.file}"
    try:
        parameter = place.client("ssm", region).get_parameter(Name=_PARAMETER)["Parameter"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return refused(subject, "the region is not prepared for the CDK", remedy)
        raise
    version = int(parameter["Value"])
    if version < BOOTSTRAP_VERSION:
        found = f"version {version}; the stacks need {BOOTSTRAP_VERSION}"
        return refused(subject, found, remedy)
    return ok(subject, f"version {version}")
