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
from deployment.preflight.check import Finding, ok, refused, warning
from experiment import load
from experiment.notes import gated
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION

NOBODY_IS_TOLD: Final = "alerts.emails is empty: no alarm reaches anybody"
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
_RUNBOOK: Final = 'docs/runbook.md, "Reach a private API"'
_FORWARD: Final = f"forward a port ({_RUNBOOK}) and set {ADDRESS_VARIABLE}"


def cdk(deployment: Deployment) -> Iterator[Finding]:
    """The CLI, which make installs."""
    if path := shutil.which("cdk"):
        yield ok(path)
    else:
        yield refused("no cdk on the PATH", "call it by make, which brings it")


def aws(deployment: Deployment) -> Iterator[Finding]:
    """The AWS CLI and its plugin, which only a private API needs."""
    programs = [each for each in ("aws", "session-manager-plugin") if not shutil.which(each)]
    missing = " and no ".join(programs)
    if not missing:
        yield ok("found")
    elif deployment.experiment.aws.api_access:
        yield ok(f"no {missing}, which is not needed")
    else:
        yield warning(
            f"no {missing} on the PATH: there is no way to a private API",
            f"install them ({_RUNBOOK}), or set aws.api_access",
        )


def price(deployment: Deployment) -> Iterator[Finding]:
    """Whether costs are those of what is bought, and of these days."""
    experiment, read = deployment.experiment, deployment.experiment.capacity.price
    age = datetime.datetime.now(datetime.UTC).date() - read.as_of
    text = f"{read.usd_per_hour:g} USD an hour, read on {read.as_of}"
    remedy = f"read the price of {experiment.capacity.purchase} in {deployment.region}"
    if not experiment.priced_as_bought:
        wrong = f"{text}, is that of {experiment.price_of}"
        yield warning(wrong, f"{remedy}, and set capacity.price")
    if age > OLDEST_PRICE:
        remedy += " again, and set capacity.price with its as_of"
        yield warning(f"{text}, {age.days} days ago", remedy)
    elif experiment.priced_as_bought:
        yield ok(text)


def gated_models(deployment: Deployment) -> Iterator[Finding]:
    """Models that the download needs a token for."""
    if models := ", ".join(gated(deployment.experiment)):
        yield warning(
            f"{models}: the download fails without a token of the Hub",
            'accept the licence, and give the cluster a token: docs/runbook.md, "Gated models"',
        )
    else:
        yield ok("none: the download needs no token")


def alarms(deployment: Deployment) -> Iterator[Finding]:
    """Whether anybody is told of nodes that idle, or whose guard fails."""
    if emails := ", ".join(deployment.experiment.alerts.emails):
        yield ok(f"go to {emails}, once each has confirmed the subscription")
    else:
        yield warning(NOBODY_IS_TOLD, "name an address there")


def image(deployment: Deployment) -> Iterator[Finding]:
    """A ready benchmark image exists; without one, Docker can build it."""
    name = deployment.experiment.benchmark.image
    if name is None:
        yield _docker(deployment)
    elif match := _ECR.fullmatch(name):
        yield _in_ecr(deployment, match)
    else:
        text = f"{name}: not looked up, since it is not in ECR"
        yield warning(text, f"docker manifest inspect {name}")


def _docker(deployment: Deployment) -> Finding:
    program = os.environ.get("CDK_DOCKER", "docker")  # as the CLI chooses
    command = [program, "info", "--format", "{{.ServerVersion}}"]
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOCKER_SECONDS, check=False
        )
    except FileNotFoundError:
        problem = "is not installed"
    except subprocess.TimeoutExpired:
        problem = f"does not answer within {_DOCKER_SECONDS} s"
    else:
        version = completed.stdout.strip()
        if completed.returncode == 0 and version:
            return ok(f"will be built by {program} {version}")
        *_, problem = ["does not answer", *completed.stderr.strip().splitlines()]
    remedy = "start it, or set benchmark.image to a ready one"
    if has_stack(deployment, "serving"):
        needed = "needed only if spectap/ changed since the last deploy"
        return warning(f"{program}: {problem}; {needed}", remedy)
    return refused(f"{program}: {problem}; it builds the benchmark's image", remedy)


def _in_ecr(deployment: Deployment, name: re.Match[str]) -> Finding:
    image = {"imageTag": name["tag"] or "latest"}
    if name["digest"]:
        image = {"imageDigest": name["digest"]}
    try:
        deployment.client("ecr", name["region"]).describe_images(
            registryId=name["registry"], repositoryName=name["repository"], imageIds=[image]
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in ("RepositoryNotFoundException", "ImageNotFoundException"):
            raise
        remedy = "push it, or leave benchmark.image out: then Docker builds it"
        return refused(f"{name[0]} does not exist", remedy)
    return ok(f"{name[0]} exists")


def kubernetes_api(deployment: Deployment) -> Iterator[Finding]:
    """Asks the API if it exists. If not, looks whether this machine's address may come in."""
    allowed = deployment.experiment.aws.api_access
    try:
        with connected(deployment) as api, kubernetes_errors():
            version = VersionApi(api).get_code(_request_timeout=_SECONDS).git_version
    except NoCluster:
        yield access(allowed, _address)
    except Denied:
        raise
    except DeploymentError as error:
        stack = f"{deployment.name}-cluster"
        yield warning(
            f"the cluster exists, and a deploy needs no more, but make experiment does: {error}",
            f"add your address to aws.api_access and deploy {stack}; or {_FORWARD}"
            if allowed
            else _FORWARD,
        )
    else:
        yield ok(f"answers, Kubernetes {version}")


def access(allowed: Sequence[str], find_address: Callable[[], str | None]) -> Finding:
    """Whether this machine's address, if it is known, is in the blocks of ``api_access``."""
    if os.environ.get(ADDRESS_VARIABLE):
        return ok(f"no cluster yet; {ADDRESS_VARIABLE} says where it will answer")
    address, blocks = find_address(), ", ".join(allowed)
    if not allowed:
        block = f"{address}/32" if address else "your address"
        return warning(
            "no cluster yet; its API will answer only in its VPC (aws.api_access is empty)",
            f"{_FORWARD}; or set aws.api_access: [{block}]",
        )
    if address is None:
        return warning(
            f"not known whether this machine is in aws.api_access, {blocks}",
            f"{_ADDRESS_SERVICE} says your address, but did not answer",
        )
    if any(ipaddress.ip_address(address) in ipaddress.ip_network(each) for each in allowed):
        return ok(f"no cluster yet; will admit this machine, {address}")
    return warning(
        f"no cluster yet; will not admit this machine: {address} is not in {blocks}",
        f"add {address}/32 to aws.api_access; or {_FORWARD}",
    )


def _address() -> str | None:
    """This machine's public address, if it can be asked."""
    try:
        with urllib.request.urlopen(_ADDRESS_SERVICE, timeout=_SECONDS) as answer:
            return str(ipaddress.ip_address(answer.read(64).decode("ascii").strip()))
    except (OSError, ValueError):
        return None


def kubernetes(deployment: Deployment) -> Iterator[Finding]:
    """Whether the pinned version is in standard support."""
    remedy = "set KUBERNETES_VERSION in stacks/cluster.py (docs/decisions/0003)"
    listed = deployment.client("eks").describe_cluster_versions(
        clusterVersions=[KUBERNETES_VERSION]
    )
    version = next(iter(listed["clusterVersions"]), None)
    if version is None or version["versionStatus"] == "UNSUPPORTED":
        yield refused(f"EKS does not offer {KUBERNETES_VERSION}", remedy)
        return
    end = version["endOfStandardSupportDate"]
    is_over = end < datetime.datetime.now(datetime.UTC)
    if is_over or version["versionStatus"] == "EXTENDED_SUPPORT":
        yield warning(
            f"{KUBERNETES_VERSION} left standard support on {end:%Y-%m-%d}: an hour of the cluster "
            "costs more",
            remedy,
        )
    else:
        yield ok(f"{KUBERNETES_VERSION}, in standard support until {end:%Y-%m-%d}")


def addons(deployment: Deployment) -> Iterator[Finding]:
    """Whether EKS offers the pinned versions."""
    eks = deployment.client("eks")
    missing = [
        f"{name} {pinned}" for name, pinned in VERSIONS.items() if pinned not in _offered(name, eks)
    ]
    if missing:
        remedy = f"make addons EXPERIMENT={deployment.file} lists what is; set stacks/addons.py"
        yield refused(f"not offered: {', '.join(missing)}", remedy)
    else:
        yield ok(f"all {len(VERSIONS)} pinned versions are offered")


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
