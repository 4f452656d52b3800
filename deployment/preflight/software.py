"""The programs, images and versions that a deploy uses."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

from botocore.exceptions import ClientError

from deployment.addon_versions import offered
from deployment.place import Place
from deployment.preflight.finding import Finding, ok, refused, warning
from deployment.preflight.names import stands
from experiment import Experiment
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION

_ECR: Final = re.compile(
    r"(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/"
    r"(?P<repository>[^:@]+)(?:@(?P<digest>sha256:\w+)|:(?P<tag>[^@]+))?"
)
_DOCKER_SECONDS: Final = 20


def cdk(experiment: Experiment) -> Iterator[Finding]:
    """The CLI, which make installs."""
    found = shutil.which("cdk")
    if found:
        yield ok("CDK CLI", found)
    else:
        yield refused("CDK CLI", "no cdk on the PATH", "call it by make, which brings it")


def aws(experiment: Experiment) -> Iterator[Finding]:
    """The AWS CLI and its plugin, which only a private API needs."""
    missing = [its for its in ("aws", "session-manager-plugin") if not shutil.which(its)]
    if experiment.aws.api_access or not missing:
        yield ok(
            "AWS CLI", f"{' and '.join(missing)} not found, not needed" if missing else "found"
        )
    else:
        yield warning(
            "AWS CLI",
            f"no {' and no '.join(missing)} on the PATH: there is no way to a private API",
            'install them (docs/runbook.md, "Reach a private API"), or set aws.api_access',
        )


def image(place: Place) -> Iterator[Finding]:
    """A ready benchmark image is there; without one, Docker can build it."""
    ready = place.experiment.benchmark.image
    if ready is None:
        yield _docker(place)
    elif its := _ECR.fullmatch(ready):
        yield _in_ecr(place, ready, its)
    else:
        yield warning(
            "image",
            f"{ready}: not looked up, since it is not in ECR",
            f"docker manifest inspect {ready}",
        )


def _docker(place: Place) -> Finding:
    program = os.environ.get("CDK_DOCKER", "docker")  # as the CLI chooses
    try:
        done = subprocess.run(
            [program, "info", "--format", "{{.ServerVersion}}"],
            capture_output=True,
            text=True,
            timeout=_DOCKER_SECONDS,
            check=False,
        )
        version, said = done.stdout.strip(), done.stderr.strip().splitlines()
        problem = "" if done.returncode == 0 and version else (said or ["does not answer"])[-1]
    except FileNotFoundError:
        problem = "is not installed"
    except subprocess.TimeoutExpired:
        problem = f"does not answer within {_DOCKER_SECONDS} s"
    if not problem:
        return ok("image", f"will be built by {program} {version}")
    remedy = "start it, or set benchmark.image to a ready one"
    if stands(place, "serving"):
        found = f"{program}: {problem}; needed only if spectap/ changed since the last deploy"
        return warning("image", found, remedy)
    return refused("image", f"{program}: {problem}; it builds the benchmark's image", remedy)


def _in_ecr(place: Place, name: str, its: re.Match[str]) -> Finding:
    wanted = (
        {"imageDigest": its["digest"]} if its["digest"] else {"imageTag": its["tag"] or "latest"}
    )
    try:
        place.client("ecr", its["region"]).describe_images(
            registryId=its["registry"], repositoryName=its["repository"], imageIds=[wanted]
        )
    except ClientError as error:
        if error.response["Error"]["Code"] in (
            "RepositoryNotFoundException",
            "ImageNotFoundException",
        ):
            remedy = "push it, or leave benchmark.image out: then Docker builds it"
            return refused("image", f"{name} is not there", remedy)
        raise
    return ok("image", f"{name} is there")


def kubernetes(place: Place) -> Iterator[Finding]:
    """The pinned version is in standard support."""
    subject, pinned = "Kubernetes", KUBERNETES_VERSION
    found = place.client("eks").describe_cluster_versions(clusterVersions=[pinned])
    its = next(iter(found["clusterVersions"]), None)
    remedy = "set KUBERNETES_VERSION in stacks/cluster.py (docs/decisions/0003)"
    if its is None or its["versionStatus"] == "UNSUPPORTED":
        yield refused(subject, f"EKS does not offer {pinned}", remedy)
        return
    end = its["endOfStandardSupportDate"]
    if its["versionStatus"] == "EXTENDED_SUPPORT" or end < datetime.datetime.now(datetime.UTC):
        found = (
            f"{pinned} left standard support on {end:%Y-%m-%d}: an hour of the cluster costs more"
        )
        yield warning(subject, found, remedy)
    else:
        yield ok(subject, f"{pinned}, in standard support until {end:%Y-%m-%d}")


def addons(place: Place) -> Iterator[Finding]:
    """EKS offers the pinned versions."""
    eks = place.client("eks")
    missing = [
        f"{name} {pinned}"
        for name, pinned in VERSIONS.items()
        if pinned not in offered(name, eks)[0]
    ]
    if missing:
        remedy = f"make addons EXPERIMENT={place.file} lists what is; set stacks/addons.py"
        yield refused("add-ons", f"not offered: {', '.join(missing)}", remedy)
    else:
        yield ok("add-ons", f"all {len(VERSIONS)} pinned versions are offered")
