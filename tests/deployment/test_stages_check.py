"""What ``make experiment`` does about each state in which it may find a stack."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from deployment.console import Console
from deployment.errors import DeploymentError
from deployment.place import Place
from deployment.preflight import Status, names
from deployment.stages import check
from deployment.stages.check import Check
from deployment.stages.shown import Shown
from deployment.stages.stage import Way
from rehearsal.aws.client import Aws
from tests.deployment import account

At = Callable[..., Place]


def with_states(aws: Aws, place: Place, states: Sequence[str]) -> None:
    """Has the network's stack be in each of these states, look after look; the last one stays."""
    account.stack(aws, place, "network")
    states_seen = itertools.chain(states, itertools.repeat(states[-1]))

    def tell(parsed: dict[str, Any], **_: Any) -> None:
        for stack in parsed.get("Stacks", []):
            stack["StackStatus"] = next(states_seen)

    events = place.client("cloudformation").meta.events
    events.register("after-call.cloudformation.DescribeStacks", tell)


def performed(place: Place) -> str:
    log = io.StringIO()
    console = Console(1, log)
    with console.stage("preflight") as line:
        line.found = Check(Way(place)).perform(Shown(console, line, poll_seconds=0))
    return log.getvalue()


@pytest.mark.parametrize(
    "states",
    [
        ["CREATE_IN_PROGRESS", "CREATE_COMPLETE"],
        ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_COMPLETE"],
        ["UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE"],
        ["CREATE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS", "ROLLBACK_COMPLETE"],
        ["IMPORT_IN_PROGRESS", "IMPORT_COMPLETE"],
    ],
)
def test_a_deploy_that_goes_on_is_waited_for(
    aws: Aws, at: At, states: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = at(f"on-{len(states)}-{states[-1].lower().replace('_', '-')}"[:20].rstrip("-"))
    with_states(aws, place, states)
    monkeypatch.setattr(check, "checks", lambda place: [*names.stacks(place)])
    shown = performed(place)
    assert f"{place.name}-network is {states[0]} (" in shown
    assert "1 checks" in shown


@pytest.mark.parametrize(
    ("state", "status", "words"),
    [
        ("REVIEW_IN_PROGRESS", Status.OK, "1 of 7 stand"),
        ("UPDATE_ROLLBACK_COMPLETE", Status.OK, "1 of 7 stand"),
        ("ROLLBACK_COMPLETE", Status.WARNING, "a deploy deletes it and makes it anew"),
        ("UPDATE_ROLLBACK_FAILED", Status.REFUSED, "cdk rollback"),
        ("DELETE_IN_PROGRESS", Status.REFUSED, "wait until the destroy has ended, then begin"),
        ("DELETE_FAILED", Status.REFUSED, "make destroy EXPERIMENT="),
    ],
)
def test_any_other_state_is_said_at_once(
    aws: Aws, at: At, state: str, status: Status, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = at(f"at-{state.lower().replace('_', '-')}"[:20].rstrip("-"))
    with_states(aws, place, [state])
    (finding,) = names.stacks(place)
    assert finding.status is status
    assert words in f"{finding.found}; {finding.remedy}"
    monkeypatch.setattr(check, "checks", lambda place: [finding])
    if status is Status.REFUSED:
        with pytest.raises(DeploymentError, match="1 of 1 checks refuse"):
            performed(place)
    else:
        assert "1 checks" in performed(place)
