"""``make preflight``: what would stand in the way of an experiment. It only reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

from rich.progress import Progress

from deployment.account import Deployment, DeploymentError
from deployment.console import print_table, rich_console
from deployment.preflight.check import Check, Finding, Status
from deployment.preflight.table import CHECKS, LOCAL_CHECKS
from experiment import load

__all__ = ["Finding", "Status", "checks", "run"]

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
            unknown = Deployment(experiment, file, "unknown")
            headline = f"experiment {experiment.name} ({file}), {unknown.region}"
            findings = [_no_account(error, unknown.region), *_asked(LOCAL_CHECKS, unknown, bar)]
        else:
            headline, findings = deployment.headline, checks(deployment, bar)
    print(f"{headline}: nothing is created")
    print_table(_rows(findings), _STYLES)
    count = {status: sum(each.status is status for each in findings) for status in Status}
    print(
        f"{count[Status.OK]} ok, {count[Status.WARNING]} warnings, "
        f"{count[Status.REFUSED]} refused; nothing was created"
    )
    return int(count[Status.REFUSED] > 0)


def checks(deployment: Deployment, bar: Progress | None = None) -> list[Finding]:
    """All findings, in a fixed order. Makes no change, and raises nothing."""
    return _asked((*CHECKS, *LOCAL_CHECKS), deployment, bar)


def _asked(every: Sequence[Check], deployment: Deployment, bar: Progress | None) -> list[Finding]:
    """Several at once. ``bar`` shows how many are done."""
    bar = bar or Progress(disable=True)
    task = bar.add_task("checks", total=len(every))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        asked = [threads.submit(check.findings, deployment) for check in every]
        try:
            for _ in as_completed(asked):
                bar.advance(task)
        except KeyboardInterrupt:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return [finding for answer in asked for finding in answer.result()]


def _rows(findings: Iterable[Finding]) -> Iterable[tuple[str, str, str]]:
    for finding in findings:
        yield str(finding.status), finding.subject, finding.text
        if finding.remedy:
            yield "", "", f"-> {finding.remedy}"


def _no_account(error: DeploymentError, region: str) -> Finding:
    remedy = (
        "sign in (aws sso login, AWS_PROFILE, or AWS_ACCESS_KEY_ID and its like); "
        f"if {region} must be opted into, enable it for the account first. "
        "The account was asked nothing else"
    )
    return Finding(Status.REFUSED, "credentials", str(error), remedy)
