"""``make preflight``: what would stand in the way of an experiment. It only reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

from rich.progress import Progress

from deployment.account import Deployment, DeploymentError
from deployment.console import print_table, rich_console
from deployment.preflight import account, capacity, software
from deployment.preflight.check import Check, Finding, Status, findings, refused
from experiment import load

__all__ = ["Finding", "Status", "checks", "run"]

CHECKS: Final[Mapping[str, Check]] = {
    "credentials": account.credentials,
    "bootstrap": account.bootstrap,
    "quota, Trainium vCPUs": capacity.trainium_quota,
    "quota, CPU nodes' vCPUs": capacity.cpu_quota,
    "quotas": capacity.other_quotas,
    "zones": capacity.zones,
    "instance types": capacity.offerings,
    "capacity": capacity.reservation,
    "stacks": account.stacks,
    "cluster": account.cluster,
    "bucket": account.bucket,
    "image": software.image,
    "Kubernetes API": software.kubernetes_api,
    "Kubernetes": software.kubernetes,
    "add-ons": software.addons,
}
"""What the account is asked, by the subject of the rows."""
LOCAL_CHECKS: Final[Mapping[str, Check]] = {
    "CDK CLI": software.cdk,
    "AWS CLI": software.aws,
    "price": software.price,
    "gated models": software.gated_models,
    "alarms": software.alarms,
}
"""What this machine and the file are asked, which needs no account."""

_AT_ONCE: Final = 8
_STYLES: Final = {"ok": "green", "warning": "yellow", "refused": "bold red"}


def run(file: str) -> int:
    """Prints the table for the experiment in ``file``; returns 1 if anything is refused.

    Raises ExperimentError.
    """
    experiment = load(file)
    console = rich_console(sys.stderr)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        try:
            deployment = Deployment.of(file)
        except DeploymentError as error:
            deployment = Deployment(experiment, file, "unknown")
            headline = f"experiment {experiment.name} ({file}), {deployment.region}"
            rows = [
                _no_account(error, deployment.region),
                *_all_findings(LOCAL_CHECKS, deployment, bar),
            ]
        else:
            headline, rows = deployment.headline, checks(deployment, bar)
    print(f"{headline}: nothing is created")
    print_table(_cells(rows), _STYLES)
    count = {status: sum(row.status is status for row in rows) for status in Status}
    print(
        f"{count[Status.OK]} ok, {count[Status.WARNING]} warnings, "
        f"{count[Status.REFUSED]} refused; nothing was created"
    )
    return int(count[Status.REFUSED] > 0)


def checks(deployment: Deployment, bar: Progress | None = None) -> list[Finding]:
    """All findings, in a fixed order. Makes no change, and raises nothing."""
    return _all_findings({**CHECKS, **LOCAL_CHECKS}, deployment, bar)


def _all_findings(
    table: Mapping[str, Check], deployment: Deployment, bar: Progress | None
) -> list[Finding]:
    """Several at once. ``bar`` shows how many are done."""
    bar = bar or Progress(disable=True)
    task = bar.add_task("checks", total=len(table))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        futures = [threads.submit(findings, *check, deployment) for check in table.items()]
        try:
            for _ in as_completed(futures):
                bar.advance(task)
        except KeyboardInterrupt:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return [finding for future in futures for finding in future.result()]


def _cells(rows: Iterable[Finding]) -> Iterable[tuple[str, str, str]]:
    for row in rows:
        yield str(row.status), row.subject, row.text
        if row.remedy:
            yield "", "", f"-> {row.remedy}"


def _no_account(error: DeploymentError, region: str) -> Finding:
    remedy = (
        "sign in (aws sso login, AWS_PROFILE, or AWS_ACCESS_KEY_ID and its like); "
        f"if {region} must be opted into, enable it for the account first. "
        "The account was asked nothing else"
    )
    return refused(str(error), remedy, "credentials")
