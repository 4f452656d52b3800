"""No node stands unguarded: whatever people do, EKS reports late, refuses or fails.

``GUARD_MINUTES=10`` tries the property for so long.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from deployment import guard, nodes, proof
from deployment.account import DeploymentError
from deployment.nodes import Kind
from tests.deployment.fake_aws import HOUR, MINUTE
from tests.deployment.fake_aws.cloudformation import Template
from tests.deployment.operators import Mishap, Office, deployed_office, interrupt, lose, throttle

SEQUENCES: Final = 200
MINUTES: Final = float(os.environ.get("GUARD_MINUTES", "0"))

Action = Callable[[Office], None]

KINDS: Final = st.sampled_from(Kind)
AT: Final = st.integers(0, 40)
"""A boundary of a command: most have fewer."""


def starts(*waits: float) -> st.SearchStrategy[Action]:
    return st.builds(
        lambda kind, wait: lambda office: office.start(kind, wait), KINDS, st.sampled_from(waits)
    )


STARTS: Final = starts(0.0, 10 * MINUTE, 2 * HOUR)
ENDS: Final = st.sampled_from(
    [Office.stop, Office.stop, Office.prove, Office.deploy, Office.destroy]
)
FAULTS: Final = st.sampled_from([interrupt, interrupt, lose, throttle])
ELSEWHERE: Final = st.one_of(starts(0.0, 10 * MINUTE), ENDS)
"""What somebody does at a second terminal, while the first one is held up."""


class Commands(RuleBasedStateMachine):
    """Whether all nodes are guarded is asked whenever a call takes effect or something happens."""

    def __init__(self) -> None:
        super().__init__()
        self._entered = deployed_office()
        self.office = self._entered.__enter__()
        self.aws = self.office.aws

    @rule(action=STARTS, fault=st.none() | FAULTS, at=AT)
    def start(self, action: Action, fault: Callable[[str], None] | None, at: int) -> None:
        self._perform(action, [Mishap(at, fault)] if fault else [])

    @rule(action=ENDS, fault=st.none() | FAULTS, at=AT)
    def end(self, action: Action, fault: Callable[[str], None] | None, at: int) -> None:
        self._perform(action, [Mishap(at, fault)] if fault else [])

    @rule(action=STARTS | ENDS, second_action=ELSEWHERE, at=AT, fault=st.none() | FAULTS, delay=AT)
    def two_terminals(
        self,
        action: Action,
        second_action: Action,
        at: int,
        fault: Callable[[str], None] | None,
        delay: int,
    ) -> None:
        second = Mishap(at, lambda _: self._perform(second_action, []))
        self._perform(action, [second, *([Mishap(at + 1 + delay, fault)] if fault else [])])

    @rule(
        update=st.sampled_from([5.0, 20.0, 90.0, 8 * MINUTE]),
        report=st.sampled_from([0.0, 30.0, 110.0]),
        capacity=st.sampled_from([3 * MINUTE, 90 * MINUTE, 3 * HOUR, None]),
        fails=st.sampled_from([False, False, True]),
        strict=st.booleans(),
    )
    def change_of_pace(
        self, update: float, report: float, capacity: float | None, fails: bool, strict: bool
    ) -> None:
        pace = self.aws.pace
        pace.refuses_no_change = strict
        pace.update, pace.report, pace.capacity, pace.fails = update, report, capacity, fails

    @rule(
        generation=st.integers(1, 2),
        compiling=st.sampled_from([None, 1, 2]),
        maximum=st.integers(4, 5),
        fails=st.booleans(),
    )
    def edit_the_file(
        self, generation: int, compiling: int | None, maximum: int, fails: bool
    ) -> None:
        groups = {"trainium": generation} | ({"compile": compiling} if compiling else {})
        self.office.generations, self.office.maximum = groups, maximum
        self.aws.cloudformation.fails = fails

    @rule()
    def end_of_a_run(self) -> None:
        for group in self.aws.eks.groups:
            if group.startswith("trainium"):
                self.aws.machines.start(group)

    @rule(seconds=st.sampled_from([15.0, MINUTE, 10 * MINUTE, HOUR, 3.95 * HOUR]))
    def wait(self, seconds: float) -> None:
        self.aws.clock.advance(seconds)

    def teardown(self) -> None:
        """Left alone, nodes are gone within their limit."""
        try:
            self.aws.pace.fails = False
            self.aws.clock.advance(5 * HOUR)
            assert not any(group.nodes for group in self.aws.eks.groups.values())
        finally:
            self._entered.__exit__(None, None, None)

    def _perform(self, action: Action, mishaps: Sequence[Mishap]) -> None:
        self.office.command(lambda: action(self.office), mishaps)


def test_every_node_is_guarded_at_every_moment() -> None:
    until = time.monotonic() + MINUTES * 60
    while True:
        run_state_machine_as_test(
            Commands,
            settings=settings(
                max_examples=SEQUENCES,
                stateful_step_count=8,
                database=None,
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
                suppress_health_check=[*HealthCheck],
            ),
        )
        if time.monotonic() > until:
            return


@pytest.fixture
def office() -> Iterator[Office]:
    """Deployed, without nodes."""
    with deployed_office() as deployed:
        yield deployed


def test_a_guard_that_begins_to_act_during_a_start_gets_no_later_date() -> None:
    """The property found this order, about once in ten thousand."""
    state = Commands()
    state.two_terminals(Office.stop, lambda office: office.start(Kind.TRAINIUM, 600.0), 13, None, 0)
    state.wait(14_310.0)
    state.start(lambda office: office.start(Kind.COMPILE), None, 0)
    state.start(lambda office: office.start(Kind.TRAINIUM), None, 0)
    state.teardown()


@pytest.mark.parametrize("at", range(20))
def test_a_destroy_meanwhile_ends_a_start_in_words(office: Office, at: int) -> None:
    destroy = Mishap(at, lambda _: office.command(office.destroy))
    office.command(lambda: office.start(Kind.TRAINIUM), [destroy])
    office.aws.check()


def schedule(office: Office, kind: Kind) -> dict[str, Any]:
    return office.aws.scheduler.groups["article-guard"][f"{kind}-to-zero"]


def interrupted_once_asked(office: Office, size: int, action: Callable[[], None]) -> None:
    """Ctrl-C as soon as EKS has accepted a size of the Trainium nodes."""

    def press(_: str) -> None:
        group = office.group(Kind.TRAINIUM)
        if group.is_busy and group.desired == size:
            raise KeyboardInterrupt

    office.aws.boundary = press
    with pytest.raises(KeyboardInterrupt):
        action()
    office.aws.boundary = lambda _: None


def test_a_stop_soon_after_a_start_leaves_no_node(office: Office) -> None:
    """EKS still reports a size of 0 when the nodes are stopped."""
    trainium, office.aws.pace.report = office.group(Kind.TRAINIUM), 30
    interrupted_once_asked(office, 1, lambda: office.start(Kind.TRAINIUM))
    assert (trainium.desired, trainium.reported) == (1, 0)

    office.stop()

    office.aws.check()
    assert trainium.desired == 0
    office.aws.clock.advance(HOUR)
    assert trainium.nodes == []


@pytest.mark.parametrize("kind", Kind)
def test_the_schedule_asks_eks_for_none_for_days(office: Office, kind: Kind) -> None:
    office.start(kind)
    written = schedule(office, kind)
    lasts = written["EndDate"] - written["StartDate"]
    assert (lasts.days, written["ScheduleExpression"]) == (3, "rate(10 minutes)")
    assert (written["FlexibleTimeWindow"], written["ActionAfterCompletion"]) == (
        {"Mode": "OFF"},
        "DELETE",
    )
    target = written["Target"]
    assert target["RoleArn"].endswith(f":role/{kind}")
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert json.loads(target["Input"]) == {
        "ClusterName": "article",
        "NodegroupName": f"{kind}-1",
        "ScalingConfig": {"MinSize": 0, "DesiredSize": 0},
    }


def test_the_guard_outlives_an_eks_that_refuses_for_hours(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.clock.advance(3 * HOUR)
    office.aws.pace.fails = True
    office.aws.clock.advance(20 * HOUR)
    assert office.group(Kind.TRAINIUM).nodes
    office.aws.pace.fails = False
    office.aws.clock.advance(20 * MINUTE)
    assert office.group(Kind.TRAINIUM).nodes == []


def test_it_counts_from_the_first_node_and_until_then_from_the_start(office: Office) -> None:
    office.aws.pace.capacity = 2 * HOUR
    started = office.aws.clock.now()
    office.start(Kind.TRAINIUM)
    first = guard.find(office.deployment, Kind.TRAINIUM)
    assert first is not None
    assert (first.at - started).total_seconds() == pytest.approx(4 * HOUR, abs=10)

    office.aws.clock.advance(HOUR)
    office.start(Kind.TRAINIUM)  # which does not put it off
    assert guard.find(office.deployment, Kind.TRAINIUM) == first

    office.start(Kind.TRAINIUM, 3 * HOUR)
    (joined,) = office.group(Kind.TRAINIUM).nodes
    counted = guard.find(office.deployment, Kind.TRAINIUM)
    assert counted is not None
    assert counted.at == office.aws.clock.moment(joined + 4 * HOUR)
    office.aws.clock.advance(HOUR)
    office.start(Kind.TRAINIUM, HOUR)
    assert guard.find(office.deployment, Kind.TRAINIUM) == counted


def test_what_an_earlier_start_has_left_does_not_end_a_later_one(office: Office) -> None:
    """Not even after a stop that was interrupted, while EKS still reports the old size."""
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.clock.advance(3.5 * HOUR)
    interrupted_once_asked(office, 0, office.stop)
    assert office.group(Kind.TRAINIUM).reported == 1
    assert guard.find(office.deployment, Kind.TRAINIUM) is None

    office.start(Kind.TRAINIUM, HOUR)
    office.aws.clock.advance(3 * HOUR)
    assert office.group(Kind.TRAINIUM).nodes


@pytest.mark.parametrize("pause", [0, 30, 60, 90, 120, 300, 590])
def test_a_stop_does_not_end_the_nodes_of_the_next_start(office: Office, pause: int) -> None:
    """Its guard's calls meet its own update of EKS, and are not tried again later."""
    office.aws.pace.update = 40
    office.start(Kind.TRAINIUM, HOUR)
    office.stop()
    office.aws.clock.advance(pause)
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.clock.advance(2 * HOUR)
    assert office.group(Kind.TRAINIUM).nodes


def test_a_node_that_replaces_another_does_not_put_the_guard_off(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    guarded = guard.find(office.deployment, Kind.TRAINIUM)
    office.aws.clock.advance(HOUR)
    office.group(Kind.TRAINIUM).nodes[:] = [office.aws.clock.seconds]
    office.start(Kind.TRAINIUM, HOUR)
    assert guard.find(office.deployment, Kind.TRAINIUM) == guarded


def test_an_eks_that_refuses_what_changes_nothing_stops_nobody(office: Office) -> None:
    office.aws.pace.refuses_no_change = True
    office.prove()
    office.stop()
    office.start(Kind.TRAINIUM, HOUR)
    office.start(Kind.TRAINIUM, HOUR)
    office.stop()
    assert office.group(Kind.TRAINIUM).desired == 0
    office.destroy()
    assert office.aws.cloudformation.stack is None


def test_a_start_right_after_a_run_that_ended_its_nodes_has_its_whole_time(office: Office) -> None:
    """EKS still reports them."""
    office.aws.pace.report = 110
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.clock.advance(3.5 * HOUR)
    office.aws.machines.start("trainium-1")
    office.aws.clock.advance(80)
    assert office.group(Kind.TRAINIUM).reported == 1
    office.start(Kind.TRAINIUM, HOUR)
    later = guard.find(office.deployment, Kind.TRAINIUM)
    assert later is not None
    assert later.hours > 3.8


def test_a_group_whose_deletion_failed_is_deleted_by_the_next_one(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.group(Kind.TRAINIUM).status = "DELETE_FAILED"
    office.destroy()
    office.aws.clock.advance(HOUR)
    assert office.aws.eks.groups == {}


def test_nodes_that_come_after_a_run_that_ended_them_have_their_whole_time(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.clock.advance(3.5 * HOUR)
    office.aws.machines.start("trainium-1")
    office.aws.clock.advance(10 * MINUTE)
    office.start(Kind.TRAINIUM)
    later = guard.find(office.deployment, Kind.TRAINIUM)
    assert later is not None
    assert later.hours == pytest.approx(4, abs=0.1)


def test_an_interrupted_stop_goes_on_without_its_terminal(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.pace.fails = True
    with pytest.raises(DeploymentError, match="is Failed: an internal error"):
        office.stop()
    office.aws.pace.fails = False
    assert office.group(Kind.TRAINIUM).desired == 1
    office.aws.clock.advance(HOUR / 4)
    assert office.group(Kind.TRAINIUM).nodes == []


def test_nodes_that_somebody_gave_a_minimum_are_stopped(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.group(Kind.TRAINIUM).minimum = 1
    group = nodes.find(office.deployment, Kind.TRAINIUM)
    assert group is not None
    assert nodes.resize(office.deployment, group, 0)
    assert office.group(Kind.TRAINIUM).desired == 0


def test_after_a_stop_it_asks_on_every_hour(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.stop()
    office.aws.clock.advance(HOUR / 2)
    updates = len(office.group(Kind.TRAINIUM).updates)
    office.aws.clock.advance(10 * HOUR)
    assert len(office.group(Kind.TRAINIUM).updates) == updates + 10


def test_nodes_that_are_being_ended_are_not_started_anew(office: Office) -> None:
    """Their guard would count anew, though EKS never ended them."""
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.pace.fails = True
    with pytest.raises(DeploymentError, match="is Failed"):
        office.stop()
    with pytest.raises(DeploymentError, match="are being ended, and EKS still reports 1"):
        office.start(Kind.TRAINIUM)


def test_a_stop_at_another_terminal_ends_a_start(office: Office) -> None:
    group = office.group(Kind.TRAINIUM)

    def stopped(_: str) -> None:
        if group.is_busy and group.desired == 1:
            office.aws.boundary = lambda _: None
            office.stop()

    office.aws.boundary = stopped
    with pytest.raises(DeploymentError, match="were stopped while they were being started"):
        office.start(Kind.TRAINIUM)
    assert group.desired == 0


def test_the_guard_is_there_before_the_nodes(office: Office) -> None:
    office.aws.scheduler.groups.clear()
    with pytest.raises(DeploymentError, match="AWS: "):
        office.start(Kind.TRAINIUM)
    assert office.group(Kind.TRAINIUM).updates == []


def test_nodes_that_somebody_started_without_a_guard_get_one(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(office.aws, "_limits", None)  # until then nothing guards them
    office.start(Kind.TRAINIUM, HOUR)
    del office.aws.scheduler.groups["article-guard"]["trainium-to-zero"]
    office.start(Kind.TRAINIUM)
    guarded = guard.find(office.deployment, Kind.TRAINIUM)
    assert guarded is not None
    assert guarded.hours == pytest.approx(4, abs=0.1)


def test_a_stop_just_before_eks_takes_the_size_ends_the_nodes_soon(office: Office) -> None:
    """The stop finds nothing to end, and from then on its schedule asks for 0 every hour only."""

    def stop(moment: str) -> None:
        if moment == "before" and office.aws.calls[-1] == "eks:UpdateNodegroupConfig":
            office.aws.boundary = lambda _: None
            office.stop()

    office.aws.boundary = stop
    with pytest.raises(DeploymentError, match="were stopped while they were being started"):
        office.start(Kind.TRAINIUM)
    office.aws.clock.advance(HOUR / 2)
    assert office.group(Kind.TRAINIUM).nodes == []


def test_the_guard_of_a_group_that_was_replaced_is_no_other_groups(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.generations["trainium"] = 2
    office.aws.cloudformation.deploy(Template(office.generations))
    office.aws.clock.advance(HOUR)
    assert office.aws.eks.groups.keys() == {"trainium-2", "compile-1"}
    assert schedule(office, Kind.TRAINIUM)["StartDate"] > office.aws.clock.now()
    assert guard.find(office.deployment, Kind.TRAINIUM) is None


def test_nodes_of_one_group_outlive_a_deploy_that_replaces_the_other(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.generations["compile"], office.maximum = 2, 5
    office.deploy()
    office.aws.clock.advance(HOUR)
    assert office.aws.eks.groups.keys() == {"trainium-1", "compile-2"}
    assert (office.group(Kind.TRAINIUM).maximum, len(office.group(Kind.TRAINIUM).nodes)) == (5, 1)


def test_nodes_that_were_asked_for_just_now_outlive_a_deploy(office: Office) -> None:
    office.aws.pace.report = 110
    interrupted_once_asked(office, 1, lambda: office.start(Kind.TRAINIUM))
    office.maximum = 5
    office.deploy()
    office.aws.clock.advance(HOUR)
    assert office.group(Kind.TRAINIUM).nodes


def test_a_stack_whose_nodes_cannot_be_stopped_is_not_deleted(office: Office) -> None:
    office.start(Kind.TRAINIUM, HOUR)
    office.aws.pace.fails = True
    with pytest.raises(DeploymentError, match="is Failed"):
        office.destroy()
    assert office.aws.cloudformation.stack


def test_an_experiment_without_stacks_has_no_nodes(office: Office) -> None:
    office.destroy()
    assert nodes.groups(office.deployment) == []
    assert guard.find(office.deployment, Kind.TRAINIUM) is None
    assert not guard.stop(office.deployment, Kind.TRAINIUM)
    with pytest.raises(DeploymentError, match="article-trainium lacks them"):
        guard.start(office.deployment, Kind.TRAINIUM, 1)


def test_the_guard_is_seen_to_act_once_before_there_are_nodes(office: Office) -> None:
    office.prove()
    statuses = [update["status"] for update in office.group(Kind.TRAINIUM).updates]
    assert statuses == ["Successful"] * 2  # by the command itself, and by the schedule
    assert all(
        proof.is_proved(office.deployment, group) for group in nodes.groups(office.deployment)
    )
    office.aws.clock.advance(24 * HOUR)
    assert len(office.group(Kind.TRAINIUM).updates) == 2


def test_a_guard_that_may_not_act_is_not_proved(office: Office) -> None:
    office.aws.scheduler.is_denied = True
    with pytest.raises(DeploymentError, match="the guard of the trainium nodes and compile nodes"):
        office.prove()
    assert not any(
        proof.is_proved(office.deployment, group) for group in nodes.groups(office.deployment)
    )


def test_a_group_that_was_replaced_is_proved_anew(office: Office) -> None:
    office.prove()
    office.generations["compile"] = 2
    office.deploy()
    office.aws.clock.advance(HOUR)
    proved = {
        each.kind: proof.is_proved(office.deployment, each)
        for each in nodes.groups(office.deployment)
    }
    assert proved == {Kind.TRAINIUM: True, Kind.COMPILE: False}


def test_a_group_has_no_more_nodes_than_it_may_and_none_is_taken_away(office: Office) -> None:
    guard.start(office.deployment, Kind.COMPILE, 7)
    assert office.group(Kind.COMPILE).desired == 4
    guard.start(office.deployment, Kind.COMPILE, 1)
    assert office.group(Kind.COMPILE).desired == 4
