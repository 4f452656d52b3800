"""Makes all checks at once, and prints what they found."""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final, TypeAlias

from deployment import place
from deployment.account import in_words
from deployment.errors import Denied, DeploymentError
from deployment.place import Place
from deployment.preflight import capacity, file, identity, kubernetes_api, names, quotas, software
from deployment.preflight.finding import Finding, Status, refused, warning
from deployment.preflight.table import lines, summary
from experiment import Experiment, load
from spectap.printing import redraw

LOCAL: Final[dict[str, Callable[[Experiment], Iterable[Finding]]]] = {
    "CDK CLI": software.cdk,
    "AWS CLI": software.aws,
    "price": file.price,
    "gated models": file.gated_models,
    "alarms": file.alarms,
}
"""By what they ask about, the checks that need no account."""

ASKED: Final[dict[str, Callable[[Place], Iterable[Finding]]]] = {
    "credentials": identity.credentials,
    "bootstrap": identity.bootstrap,
    "quota, Trainium": quotas.trainium,
    "quota, CPU nodes": quotas.standard,
    "quota, VPCs": quotas.vpcs,
    "quota, addresses": quotas.addresses,
    "quota, clusters": quotas.clusters,
    "zones": capacity.zones,
    "instance types": capacity.offerings,
    "capacity": capacity.reservation,
    "stacks": names.stacks,
    "cluster": names.cluster,
    "bucket": names.bucket,
    "log groups": names.log_groups,
    "image": software.image,
    "Kubernetes API": kubernetes_api.reachable,
    "Kubernetes": software.kubernetes,
    "add-ons": software.addons,
}
"""The same of those that ask AWS."""

_AT_ONCE: Final = 8


def run(name: str) -> int:
    """Prints the table for the experiment in the file ``name``; returns 1 if anything is refused.

    Raises ExperimentError.
    """
    experiment = load(name)
    try:
        here = place.find(name)
    except DeploymentError as error:
        print(f"experiment {experiment.name} ({name}), {experiment.aws.region}: nothing is created")
        found = [_no_account(error, experiment.aws.region), *_made(_local(experiment), _progress)]
    else:
        print(f"{here.headline}: nothing is created")
        found = checks(here, _progress)
    print(*lines(found, shutil.get_terminal_size().columns), summary(found), sep="\n")
    return int(any(its.status is Status.REFUSED for its in found))


def checks(
    here: Place, progress: Callable[[int, int], None] = lambda done, of: None
) -> list[Finding]:
    """All findings, in a fixed order. Makes no change, and raises nothing.

    ``progress`` is told how many checks are done, of how many.
    """
    asked = {subject: functools.partial(ask, here) for subject, ask in ASKED.items()}
    return _made(asked | _local(here.experiment), progress)


_Checks: TypeAlias = dict[str, Callable[[], Iterable[Finding]]]


def _local(experiment: Experiment) -> _Checks:
    return {subject: functools.partial(ask, experiment) for subject, ask in LOCAL.items()}


def _made(asked: _Checks, progress: Callable[[int, int], None]) -> list[Finding]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        made = [threads.submit(_answer, subject, ask) for subject, ask in asked.items()]
        try:
            for done, _ in enumerate(as_completed(made), start=1):
                progress(done, len(made))
        except KeyboardInterrupt:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return [finding for its in made for finding in its.result()]


def _answer(subject: str, ask: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        with in_words():
            return [*ask()]
    except Denied as error:
        found = f"not known: these credentials may not call {error.action}"
        return [warning(subject, found, f"allow {error.action}, which only reads")]
    except DeploymentError as error:
        return [warning(subject, f"not known: {error}", "mend this, and ask again")]


def _no_account(error: DeploymentError, region: str) -> Finding:
    remedy = (
        "sign in (aws sso login, AWS_PROFILE, or AWS_ACCESS_KEY_ID and its like); "
        f"if {region} must be opted into, enable it for the account first. "
        "The account was asked nothing else"
    )
    return refused("credentials", str(error), remedy)


def _progress(done: int, of: int) -> None:
    """A line on a terminal; nothing in a log."""
    if not sys.stderr.isatty():
        return
    line = "" if done == of else f"checked {done} of {of}"
    redraw(line, sys.stderr)
