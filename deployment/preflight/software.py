"""Asks for the programs, images and versions that a deploy uses; the file's own dates as well."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from botocore.exceptions import ClientError
from kubernetes.client import VersionApi

from deployment.account import Denied, Deployment, DeploymentError, aws_errors, client
from deployment.cluster import ADDRESS_VARIABLE, NoCluster, connected, kubernetes_errors
from deployment.preflight.account import has_stack
from deployment.preflight.check import Answer
from experiment import load
from experiment.notes import gated
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION

OLDEST_PRICE: Final = datetime.timedelta(days=60)
"""A choice: prices of Capacity Blocks change a few times a year."""
_ADDRESS_SERVICE: Final = "https://checkip.amazonaws.com"
"""Of AWS; answers with the address that asks."""
_SECONDS: Final = 5
_DOCKER_SECONDS: Final = 20
_ECR: Final = re.compile(
    r"(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/"
    r"(?P<repository>[^:@]+)(?:@(?P<digest>sha256:\w+)|:(?P<tag>[^@]+))?"
)


def cdk(deployment: Deployment) -> Iterator[Answer]:
    """The CLI, which make installs."""
    path = shutil.which("cdk")
    yield "ok" if path else "missing", {"path": path}


def aws(deployment: Deployment) -> Iterator[Answer]:
    """The AWS CLI and its plugin, which only a private API needs."""
    missing = [each for each in ("aws", "session-manager-plugin") if not shutil.which(each)]
    answer = "not needed" if deployment.experiment.aws.api_access else "missing"
    yield answer if missing else "ok", {"missing": " and no ".join(missing)}


def price(deployment: Deployment) -> Iterator[Answer]:
    """Whether costs are those of what is bought, and of these days."""
    experiment, read = deployment.experiment, deployment.experiment.capacity.price
    age = datetime.datetime.now(datetime.UTC).date() - read.as_of
    facts = {
        "price": f"{read.usd_per_hour:g} USD an hour, read on {read.as_of}",
        "purchase": experiment.capacity.purchase,
        "price_of": experiment.price_of,
        "days": age.days,
    }
    if not experiment.priced_as_bought:
        yield "other", facts
    if age > OLDEST_PRICE:
        yield "old", facts
    elif experiment.priced_as_bought:
        yield "ok", facts


def gated_models(deployment: Deployment) -> Iterator[Answer]:
    """Models that the download needs a token for."""
    models = [*gated(deployment.experiment)]
    yield "gated" if models else "ok", {"models": ", ".join(models)}


def alarms(deployment: Deployment) -> Iterator[Answer]:
    """Whether anybody is told of nodes that idle, or whose guard fails."""
    emails = deployment.experiment.alerts.emails
    yield "ok" if emails else "nobody", {"emails": ", ".join(emails)}


def image(deployment: Deployment) -> Iterator[Answer]:
    """A ready benchmark image exists; without one, Docker can build it."""
    name = deployment.experiment.benchmark.image
    if name is None:
        yield _docker(deployment)
    elif match := _ECR.fullmatch(name):
        yield _in_ecr(deployment, match), {"image": name}
    else:
        yield "elsewhere", {"image": name}


def _docker(deployment: Deployment) -> Answer:
    program = os.environ.get("CDK_DOCKER", "docker")  # as the CLI chooses
    command = [program, "info", "--format", "{{.ServerVersion}}"]
    version = ""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOCKER_SECONDS, check=False
        )
    except FileNotFoundError:
        problem = "is not installed"
    except subprocess.TimeoutExpired:
        problem = f"does not answer within {_DOCKER_SECONDS} s"
    else:
        version = done.stdout.strip() if done.returncode == 0 else ""
        *_, problem = ["does not answer", *done.stderr.strip().splitlines()]
    facts = {"docker": program, "version": version, "problem": problem}
    if version:
        return "docker", facts
    return "hardly needed" if has_stack(deployment, "serving") else "no docker", facts


def _in_ecr(deployment: Deployment, name: re.Match[str]) -> str:
    id = (
        {"imageDigest": name["digest"]} if name["digest"] else {"imageTag": name["tag"] or "latest"}
    )
    try:
        deployment.client("ecr", name["region"]).describe_images(
            registryId=name["registry"], repositoryName=name["repository"], imageIds=[id]
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("RepositoryNotFoundException", "ImageNotFoundException"):
            return "missing"
        raise
    return "ok"


def kubernetes_api(deployment: Deployment) -> Iterator[Answer]:
    """Asks the API if it exists. If not, looks whether this machine's address may come in."""
    try:
        with connected(deployment) as api, kubernetes_errors():
            version = VersionApi(api).get_code(_request_timeout=_SECONDS).git_version
    except NoCluster:
        yield access(deployment.experiment.aws.api_access, _address)
    except Denied:
        raise
    except DeploymentError as error:
        is_private = not deployment.experiment.aws.api_access
        yield "silent, private" if is_private else "silent", {"error": error}
    else:
        yield "ok", {"version": version}


def access(allowed: Sequence[str], find_address: Callable[[], str | None]) -> Answer:
    """Whether this machine's address, if it is known, is in the blocks of ``api_access``."""
    if os.environ.get(ADDRESS_VARIABLE):
        return "forwarded", {}
    address = find_address()
    facts = {"address": address, "blocks": ", ".join(allowed)}
    if not allowed:
        return "private", {"block": f"{address}/32" if address else "your address"}
    if address is None:
        return "no address", {**facts, "service": _ADDRESS_SERVICE}
    is_in = any(ipaddress.ip_address(address) in ipaddress.ip_network(each) for each in allowed)
    return "admitted" if is_in else "outside", facts


def _address() -> str | None:
    """This machine's public address, if it can be asked."""
    try:
        with urllib.request.urlopen(_ADDRESS_SERVICE, timeout=_SECONDS) as answer:
            return str(ipaddress.ip_address(answer.read(64).decode("ascii").strip()))
    except (OSError, ValueError):
        return None


def kubernetes(deployment: Deployment) -> Iterator[Answer]:
    """Whether the pinned version is in standard support."""
    listed = deployment.client("eks").describe_cluster_versions(
        clusterVersions=[KUBERNETES_VERSION]
    )
    version = next(iter(listed["clusterVersions"]), None)
    if version is None or version["versionStatus"] == "UNSUPPORTED":
        yield "missing", {"version": KUBERNETES_VERSION}
        return
    end = version["endOfStandardSupportDate"]
    is_over = end < datetime.datetime.now(datetime.UTC)
    is_old = is_over or version["versionStatus"] == "EXTENDED_SUPPORT"
    yield "old" if is_old else "ok", {"version": KUBERNETES_VERSION, "end": f"{end:%Y-%m-%d}"}


def addons(deployment: Deployment) -> Iterator[Answer]:
    """Whether EKS offers the pinned versions."""
    eks = deployment.client("eks")
    missing = [
        f"{name} {pinned}" for name, pinned in VERSIONS.items() if pinned not in _offered(name, eks)
    ]
    yield "missing" if missing else "ok", {"missing": ", ".join(missing), "number": len(VERSIONS)}


def compare_addons(file: str) -> int:
    """``make addons``: a line for each. Returns 1 if EKS lacks a pinned version, otherwise 0."""
    region = load(file).aws.region
    print(f"add-ons of EKS {KUBERNETES_VERSION} in {region}, against stacks/addons.py", flush=True)
    eks, status = client("eks", region), 0
    for name, pinned in VERSIONS.items():
        with aws_errors():
            offered = _offered(name, eks)
        if pinned not in offered:
            print(f"  {name}: {pinned} is not offered; {', '.join(offered) or 'none'} is")
            status = 1
            continue
        versions = [*offered]
        newer = ", ".join(versions[: versions.index(pinned)])
        default = next((version for version in versions if offered[version]), None)
        news = f"newer: {newer}" if newer else "nothing newer"
        print(f"  {name}: {pinned}, {news}; the default is {default}")
    return status


def _offered(name: str, eks: Any) -> dict[str, bool]:
    """The versions for the cluster's Kubernetes, newest first, and which is EKS's default."""
    pages = eks.get_paginator("describe_addon_versions")
    versions = {
        version["addonVersion"]: any(
            each.get("clusterVersion") == KUBERNETES_VERSION and each.get("defaultVersion", False)
            for each in version.get("compatibilities", [])
        )
        for page in pages.paginate(addonName=name, kubernetesVersion=KUBERNETES_VERSION)
        for addon in page["addons"]
        for version in addon["addonVersions"]
    }
    return dict(sorted(versions.items(), key=lambda each: _numbers(each[0]), reverse=True))


def _numbers(version: str) -> list[int]:
    """``v1.9.10-eksbuild.2`` comes before ``v1.10.0-eksbuild.1``."""
    return [int(number) for number in re.findall(r"\d+", version)]
