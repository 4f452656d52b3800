"""Asks for the images and versions that a deploy uses, and for what the file says of itself."""

import datetime
import ipaddress
import os
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kubernetes.client import VersionApi

from experiment.rules.models import models_of
from operations.account import Denied, Deployment, DeploymentError, ask
from operations.cluster import ADDRESS_VARIABLE, NoCluster, connected
from operations.preflight.check import Finding, ok, refused, warning
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION

OLDEST_PRICE: Final = datetime.timedelta(days=60)
"""A choice: prices of Capacity Blocks change a few times a year."""
_ADDRESS_SERVICE: Final = "https://checkip.amazonaws.com"
"""A service of AWS that answers with the caller's address."""
_SECONDS: Final = 5
_GATED: Final = "meta-llama/"
"""Meta's organisation on the Hub, whose models all want a licence accepted."""
_ECR: Final = re.compile(
    r"(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/"
    r"(?P<repository>[^:@]+)(?:@(?P<digest>sha256:\w+)|:(?P<tag>[^@]+))?"
)
_FORWARD: Final = (
    f'or forward a port (docs/runbook.md, "Reach a private API") and set {ADDRESS_VARIABLE}'
)


def price(deployment: Deployment) -> Iterator[Finding]:
    """Whether costs are those of what is bought, and of these days."""
    experiment, read = deployment.experiment, deployment.experiment.capacity.price
    age = datetime.datetime.now(datetime.UTC).date() - read.as_of
    text = f"{read.usd_per_hour:g} USD an hour, read on {read.as_of}"
    remedy = f"read the price of {experiment.capacity.purchase} in {deployment.region}"
    if not experiment.priced_as_bought:
        wrong = f"{text}, is that of {experiment.price_description}"
        yield warning(wrong, f"{remedy}, and set capacity.price")
    if age > OLDEST_PRICE:
        remedy += " again, and set capacity.price with its as_of"
        yield warning(f"{text}, {age.days} days ago", remedy)
    elif experiment.priced_as_bought:
        yield ok(text)


def gated_models(deployment: Deployment) -> Iterator[Finding]:
    """Models that the download needs a token for."""
    ids = dict.fromkeys(model.id for _, _, model in models_of(deployment.experiment))
    if models := ", ".join(each for each in ids if each.startswith(_GATED)):
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
        yield warning("alerts.emails is empty: no alarm reaches anybody", "name an address there")


def image(deployment: Deployment) -> Iterator[Finding]:
    """Whether a ready benchmark image exists, where ECR can tell: nodes would wait for it."""
    name = deployment.experiment.benchmark.image
    if name is None:
        yield _build(deployment)
        return
    match = _ECR.fullmatch(name)
    if match is None:
        yield warning(f"{name}: not looked up, since it is not in ECR", "look: nodes would wait")
        return
    digest, tag = match["digest"], match["tag"] or "latest"
    image = {"imageDigest": digest} if digest else {"imageTag": tag}
    describe = deployment.client("ecr", match["region"]).describe_images
    repository = {"registryId": match["registry"], "repositoryName": match["repository"]}
    if ask(describe, **repository, imageIds=[image]):
        yield ok(f"{name} exists")
    else:
        remedy = "push it, or leave benchmark.image out: then Docker builds it"
        yield refused(f"{name} does not exist", remedy)


def _build(deployment: Deployment) -> Finding:
    """Whether a deploy can build the image. One whose image was built before builds none."""
    program = os.environ.get("CDK_DOCKER", "docker")  # as the CDK's CLI asks for it
    text = f"the first deploy builds it with {program}, which fetches from the internet"
    try:
        command = [program, "info"]
        subprocess.run(command, check=True, capture_output=True, timeout=3 * _SECONDS)
    except (OSError, subprocess.SubprocessError):
        judge = warning if deployment.stack(f"{deployment.name}-serving") else refused
        remedy = f"start {program}, or set benchmark.image to one that is built elsewhere"
        return judge(f"{text}, and {program} does not answer", remedy)
    return ok(text)


def kubernetes_api(deployment: Deployment) -> Iterator[Finding]:
    """Asks the API; before a deploy gives access to it, whether it will admit this machine."""
    aws = deployment.experiment.aws
    allowed, field = aws.api_access, "aws.api_access"
    describe = deployment.client("eks").describe_cluster
    if aws.cluster and (answer := ask(describe, name=aws.cluster)):
        network = answer["cluster"]["resourcesVpcConfig"]
        allowed = network["publicAccessCidrs"] if network["endpointPublicAccess"] else ()
        field = "publicAccessCidrs of the cluster"
    try:
        with connected(deployment) as api:
            version = VersionApi(api).get_code(_request_timeout=_SECONDS).git_version
    except NoCluster:
        yield access(allowed, _address, field)
    except Denied:
        raise
    except DeploymentError as error:
        yield warning(
            f"the cluster exists, and a deploy needs no more, but make experiment does: {error}",
            f"add your address to {field}, and deploy; {_FORWARD}",
        )
    else:
        yield ok(f"answers, Kubernetes {version}")


def access(
    allowed: Sequence[str], find_address: Callable[[], str | None], field: str = "aws.api_access"
) -> Finding:
    """Whether this machine's address, if it is known, is in the blocks of ``field``."""
    if os.environ.get(ADDRESS_VARIABLE):
        return ok(f"no access yet; {ADDRESS_VARIABLE} says where it will answer")
    address = find_address()
    if address and any(ipaddress.ip_address(address) in ipaddress.ip_network(b) for b in allowed):
        return ok(f"no access yet; will admit this machine, {address}")
    blocks = ", ".join(allowed) or "empty: the API answers only in its VPC"
    return warning(
        f"no access yet; nothing says that it will admit this machine ({field}: {blocks})",
        f"add {f'{address}/32' if address else 'your address'} to {field}; {_FORWARD}",
    )


def _address() -> str | None:
    try:
        with urllib.request.urlopen(_ADDRESS_SERVICE, timeout=_SECONDS) as answer:
            return str(ipaddress.ip_address(answer.read(64).decode("ascii").strip()))
    except (OSError, ValueError):
        return None


def kubernetes(deployment: Deployment) -> Iterator[Finding]:
    """Whether the pinned version is in standard support."""
    if deployment.experiment.aws.cluster:
        return
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
    if deployment.experiment.aws.cluster:
        return
    listed, missing = deployment.client("eks").listed, []
    for name, pinned in VERSIONS.items():
        asked = {"addonName": name, "kubernetesVersion": KUBERNETES_VERSION}
        offered = [
            version["addonVersion"]
            for addon in listed("describe_addon_versions", "addons", **asked)
            for version in addon["addonVersions"]
        ]
        if pinned not in offered:
            missing.append(f"{name} {pinned} ({', '.join(offered) or 'none'} is)")
    if missing:
        yield refused(f"not offered: {'; '.join(missing)}", "set stacks/addons.py")
    else:
        yield ok(f"all {len(VERSIONS)} pinned versions are offered")
