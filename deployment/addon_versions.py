"""Compares the pinned versions of the add-ons with those that EKS offers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from deployment.account import client, in_words
from experiment import Experiment
from stacks.addons import VERSIONS
from stacks.cluster import KUBERNETES_VERSION


def compare(experiment: Experiment) -> int:
    """Prints a line for each add-on. Returns 1 if EKS lacks a pinned version, otherwise 0."""
    region = experiment.aws.region
    print(f"add-ons of EKS {KUBERNETES_VERSION} in {region}, against stacks/addons.py", flush=True)
    eks = client("eks", region)
    return max([_line(name, pinned, *offered(name, eks)) for name, pinned in VERSIONS.items()])


def _line(name: str, pinned: str, offered: Sequence[str], default: str | None) -> int:
    """Prints the line of one add-on; returns its exit status."""
    if pinned not in offered:
        print(f"  {name}: {pinned} is not offered; {', '.join(offered) or 'none'} is")
        return 1
    newer = offered[: offered.index(pinned)]
    said = f"newer: {', '.join(newer)}" if newer else "nothing newer"
    print(f"  {name}: {pinned}, {said}; the default is {default}")
    return 0


def offered(name: str, eks: Any) -> tuple[list[str], str | None]:
    """The versions for the cluster's Kubernetes, newest first, and EKS's default.

    Raises DeploymentError.
    """
    with in_words():
        pages = eks.get_paginator("describe_addon_versions")
        found = [
            version
            for page in pages.paginate(addonName=name, kubernetesVersion=KUBERNETES_VERSION)
            for addon in page["addons"]
            for version in addon["addonVersions"]
        ]
    default = next((v["addonVersion"] for v in found if _is_default(v)), None)
    versions = sorted((v["addonVersion"] for v in found), key=_numbers, reverse=True)
    return versions, default


def _numbers(version: str) -> list[int]:
    """``v1.9.10-eksbuild.2`` comes before ``v1.10.0-eksbuild.1``."""
    return [int(number) for number in re.findall(r"\d+", version)]


def _is_default(version: dict[str, object]) -> bool:
    compatibilities = version.get("compatibilities")
    return isinstance(compatibilities, list) and any(
        c.get("clusterVersion") == KUBERNETES_VERSION and c.get("defaultVersion")
        for c in compatibilities
    )
