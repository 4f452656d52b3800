"""``make preflight``: what would stand in the way of an experiment. It only reads."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from experiment import load
from operations.account import Denied, Deployment, DeploymentError
from operations.console import print_table
from operations.preflight import account, capacity, existing_cluster, in_cluster, software
from operations.preflight.check import Check, Finding, Status, refused, warning

__all__ = ["Finding", "Status", "checks", "run"]

CHECKS: Final[Mapping[str, Check]] = {
    "bootstrap": account.bootstrap,
    "stacks": account.stacks,
    "quota, Trainium vCPUs": capacity.trainium_quota,
    "quota, CPU nodes' vCPUs": capacity.cpu_quota,
    "instance types": capacity.offerings,
    "capacity": capacity.reservation,
    "VPC": existing_cluster.vpc,
    "cluster": existing_cluster.cluster,
    "cluster's add-ons": existing_cluster.addons,
    "cluster's network": existing_cluster.network,
    "pods of others": in_cluster.webhooks,
    "autoscalers": in_cluster.autoscalers,
    "Neuron devices": in_cluster.devices,
    "image": software.image,
    "Kubernetes API": software.kubernetes_api,
    "Kubernetes": software.kubernetes,
    "add-ons": software.addons,
}
"""By the subject of the rows. Their calls of AWS are in ``READ_ACTIONS`` of stacks/delivery.py.

Not checked is what a deploy itself refuses at once, without cost and with a clear message, such as
a zone that does not exist."""
FILE_CHECKS: Final[Mapping[str, Check]] = {
    "price": software.price,
    "gated models": software.gated_models,
    "alarms": software.alarms,
}
"""Checks of the file, which need no account."""

_AT_ONCE: Final = 8
_STYLES: Final = {"ok": "green", "warning": "yellow", "refused": "bold red"}


def run(file: str) -> int:
    """Prints the table for ``file``; returns 1 if anything is refused. Raises ExperimentError."""
    experiment = load(file)
    try:
        deployment = Deployment.of(file)
    except DeploymentError as error:
        deployment = Deployment(experiment, file, "unknown")
        remedy = (
            "sign in (aws sso login, AWS_PROFILE, or AWS_ACCESS_KEY_ID and its like); "
            f"if {deployment.region} must be opted into, enable it for the account first. "
            "The account was asked nothing else"
        )
        no_account = refused(str(error), remedy, "credentials")
        rows = [no_account, *checks(deployment, FILE_CHECKS)]
    else:
        rows = checks(deployment)
    print(f"{deployment.headline}: nothing is created")
    print_table(_cells(rows), _STYLES)
    count = {status: sum(row.status is status for row in rows) for status in Status}
    print(
        f"{count[Status.OK]} ok, {count[Status.WARNING]} warnings, "
        f"{count[Status.REFUSED]} refused; nothing was created"
    )
    return int(count[Status.REFUSED] > 0)


def checks(
    deployment: Deployment, table: Mapping[str, Check] = {**CHECKS, **FILE_CHECKS}
) -> list[Finding]:
    """All findings, in the order of ``table``. Makes no change, and raises nothing."""

    def rows(subject: str, check: Check) -> list[Finding]:
        try:
            findings = [*check(deployment)]
        except Denied as error:
            text = f"not known: these credentials may not call {error.action}"
            findings = [warning(text, f"allow {error.action}, which only reads")]
        except DeploymentError as error:
            findings = [warning(f"not known: {error}", "repair this, and ask again")]
        return [row if row.subject else row._replace(subject=subject) for row in findings]

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return [row for each in threads.map(rows, table, table.values()) for row in each]


def _cells(rows: Iterable[Finding]) -> Iterable[tuple[str, str, str]]:
    for row in rows:
        yield str(row.status), row.subject, row.text
        if row.remedy:
            yield "", "", f"-> {row.remedy}"
