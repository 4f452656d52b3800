"""Whether this machine reaches, or will reach, the Kubernetes API."""

from __future__ import annotations

import ipaddress
import os
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kubernetes.client import VersionApi

from deployment.cluster import ADDRESS_VARIABLE, NoCluster, connected, kubernetes_in_words
from deployment.errors import Denied, DeploymentError
from deployment.place import Place
from deployment.preflight.finding import Finding, ok, warning

SUBJECT: Final = "Kubernetes API"
_ADDRESS_SERVICE: Final = "https://checkip.amazonaws.com"
"""Of AWS; answers with the address that asks."""
_SECONDS: Final = 5
_FORWARD: Final = (
    f'forward a port (docs/runbook.md, "Reach a private API") and set {ADDRESS_VARIABLE}'
)


def reachable(place: Place) -> Iterator[Finding]:
    """Asks the API if it stands. If not, looks whether this machine's address may come in."""
    allowed = place.experiment.aws.api_access
    try:
        yield ok(SUBJECT, f"answers, Kubernetes {_version(place)}")
    except NoCluster:
        yield access(allowed, _address)
    except Denied:
        raise
    except DeploymentError as error:
        found = f"the cluster stands, and a deploy needs no more, but make experiment does: {error}"
        yield warning(SUBJECT, found, _way_in(allowed))


def _version(place: Place) -> str:
    with connected(place) as api, kubernetes_in_words():
        version: str = VersionApi(api).get_code(_request_timeout=_SECONDS).git_version
    return version


def access(allowed: Sequence[str], find_address: Callable[[], str | None]) -> Finding:
    """Whether this machine's address, if it can be found, is in the blocks of ``api_access``."""
    if os.environ.get(ADDRESS_VARIABLE):
        return ok(SUBJECT, f"no cluster yet; {ADDRESS_VARIABLE} says where it will answer")
    address = find_address()
    if not allowed:
        found = "no cluster yet; its API will answer only in its VPC (aws.api_access is empty)"
        own = f"{address}/32" if address else "your address"
        return warning(SUBJECT, found, f"{_FORWARD}; or set aws.api_access: [{own}]")
    blocks = ", ".join(allowed)
    if address is None:
        found = f"not known whether this machine is in aws.api_access, {blocks}"
        return warning(SUBJECT, found, f"{_ADDRESS_SERVICE} says your address, but did not answer")
    if any(ipaddress.ip_address(address) in ipaddress.ip_network(block) for block in allowed):
        return ok(SUBJECT, f"no cluster yet; will admit this machine, {address}")
    found = f"no cluster yet; will not admit this machine: {address} is not in {blocks}"
    return warning(SUBJECT, found, f"add {address}/32 to aws.api_access; or {_FORWARD}")


def _way_in(allowed: Sequence[str]) -> str:
    if not allowed:
        return _FORWARD
    return f"add your address to aws.api_access and deploy NAME-cluster; or {_FORWARD}"


def _address() -> str | None:
    """This machine's public address, if it can be asked."""
    try:
        with urllib.request.urlopen(_ADDRESS_SERVICE, timeout=_SECONDS) as answer:
            return str(ipaddress.ip_address(answer.read(64).decode("ascii").strip()))
    except (OSError, ValueError):
        return None
