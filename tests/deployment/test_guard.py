"""What the guard of nodes does, and that no node stands unguarded, whatever happens.

``GUARD_MINUTES=10`` tries the property for so long.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from deployment import guard, nodes
from deployment.account import DeploymentError
from deployment.nodes import Kind
from tests.deployment.fake_aws import HOUR, MINUTE, Lost
from tests.deployment.fake_aws.service import refused
from tests.deployment.operators import Operator, node_operator


def guarded(operator: Operator) -> float:
    """The seconds of the clock at which the guard of the Trainium nodes acts."""
    at = guard.find(operator.deployment, Kind.TRAINIUM)
    assert at is not None
    return operator.aws.clock.seconds_of(at)


def interrupted_once_asked(operator: Operator, size: int, action: Callable[[], None]) -> None:
    """Ctrl-C as soon as EKS has accepted a size of the Trainium nodes."""

    def press(_: str) -> None:
        group = operator.group(Kind.TRAINIUM)
        if group.is_busy and group.desired == size:
            raise KeyboardInterrupt

    operator.aws.boundary = press
    with pytest.raises(KeyboardInterrupt):
        action()
    operator.aws.boundary = lambda _: None


def test_a_stop_soon_after_a_start_leaves_no_node(operator: Operator) -> None:
    """EKS still reports a size of 0 when the nodes are stopped."""
    trainium, operator.aws.pace.report = operator.group(Kind.TRAINIUM), 30
    interrupted_once_asked(operator, 1, lambda: operator.start(Kind.TRAINIUM))
    assert (trainium.desired, trainium.reported) == (1, 0)

    operator.stop()

    operator.aws.check()
    assert trainium.desired == 0
    operator.aws.clock.advance(HOUR)
    assert trainium.nodes == []


@pytest.mark.parametrize("kind", Kind)
def test_the_schedule_asks_eks_for_none_for_days(operator: Operator, kind: Kind) -> None:
    operator.start(kind)
    schedule = operator.aws.scheduler.groups["article-guard"][f"{kind}-1-to-zero"]
    lasts = schedule["EndDate"] - schedule["StartDate"]
    assert (lasts.days, schedule["ScheduleExpression"]) == (3, "rate(10 minutes)")
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    target = schedule["Target"]
    assert target["RoleArn"].endswith(f":role/{kind}")
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert json.loads(target["Input"]) == {
        "ClusterName": "article",
        "NodegroupName": f"{kind}-1",
        "ScalingConfig": {"MinSize": 0, "DesiredSize": 0},
    }


def test_it_counts_from_the_first_node_and_until_then_from_the_start(operator: Operator) -> None:
    operator.aws.pace.capacity = 2 * HOUR
    started = operator.aws.clock.seconds
    operator.start(Kind.TRAINIUM)
    first = guarded(operator)
    assert first - started == pytest.approx(4 * HOUR, abs=10)

    operator.aws.clock.advance(HOUR)
    operator.start(Kind.TRAINIUM)  # which does not put it off
    assert guarded(operator) == first

    operator.start(Kind.TRAINIUM, 3 * HOUR)
    (joined,) = operator.group(Kind.TRAINIUM).nodes
    counted = guarded(operator)
    assert counted == int(joined + 4 * HOUR)
    operator.aws.clock.advance(HOUR)
    # Nor does a node that replaces another.
    operator.group(Kind.TRAINIUM).nodes[:] = [operator.aws.clock.seconds]
    operator.start(Kind.TRAINIUM, HOUR)
    assert guarded(operator) == counted

    # The next start has its whole time, though EKS still reports the nodes that a run has ended.
    operator.aws.pace.capacity, operator.aws.pace.report = 60, 110
    operator.aws.machines.start("trainium-1")
    operator.aws.clock.advance(80)
    assert operator.group(Kind.TRAINIUM).reported == 1
    operator.start(Kind.TRAINIUM, HOUR)
    assert guarded(operator) - operator.aws.clock.seconds > 3.8 * HOUR


def test_what_an_earlier_start_has_left_does_not_end_a_later_one(operator: Operator) -> None:
    """Not even after a stop that was interrupted, while EKS still reports the old size."""
    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.clock.advance(3.5 * HOUR)
    interrupted_once_asked(operator, 0, operator.stop)
    assert operator.group(Kind.TRAINIUM).reported == 1
    assert guard.find(operator.deployment, Kind.TRAINIUM) is None

    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.clock.advance(3 * HOUR)
    assert operator.group(Kind.TRAINIUM).nodes


def test_a_stop_does_not_end_the_nodes_of_the_next_start(operator: Operator) -> None:
    """Its guard's calls meet its own update of EKS, and are not tried again later."""
    pause, operator.aws.pace.update = 90, 40
    operator.start(Kind.TRAINIUM, HOUR)
    operator.stop()
    operator.aws.clock.advance(pause)
    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.clock.advance(2 * HOUR)
    assert operator.group(Kind.TRAINIUM).nodes


def test_an_eks_that_refuses_what_changes_nothing_stops_nobody(operator: Operator) -> None:
    operator.aws.pace.refuses_no_change = True
    operator.prove()
    operator.stop()
    operator.start(Kind.TRAINIUM, HOUR)
    operator.start(Kind.TRAINIUM, HOUR)
    operator.group(Kind.TRAINIUM).minimum = 1  # as somebody has asked for by hand
    group = nodes.find(operator.deployment, Kind.TRAINIUM)
    assert group
    assert nodes.resize(operator.deployment, group, 0)
    assert operator.group(Kind.TRAINIUM).desired == 0
    operator.stop()
    operator.destroy()
    assert operator.aws.cloudformation.stack is None
    with pytest.raises(DeploymentError, match="article-trainium lacks them"):
        guard.start(operator.deployment, Kind.TRAINIUM, 1)


def test_a_group_whose_deletion_failed_is_deleted_by_the_next_one(operator: Operator) -> None:
    operator.start(Kind.TRAINIUM, HOUR)
    operator.group(Kind.TRAINIUM).status = "DELETE_FAILED"
    operator.destroy()
    operator.aws.clock.advance(HOUR)
    assert operator.aws.eks.groups == {}


def test_an_interrupted_stop_goes_on_without_its_terminal(operator: Operator) -> None:
    """Its nodes are not started anew: their guard would count anew, though EKS never ended them."""
    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.pace.fails = True
    with pytest.raises(DeploymentError, match="is Failed: an internal error"):
        operator.stop()
    with pytest.raises(DeploymentError, match="are being ended, and EKS still reports 1"):
        operator.start(Kind.TRAINIUM)
    with pytest.raises(DeploymentError, match="is Failed"):
        operator.destroy()
    assert operator.aws.cloudformation.stack  # which would be deleted with nodes that go on
    operator.aws.pace.fails = False
    assert operator.group(Kind.TRAINIUM).desired == 1
    operator.aws.clock.advance(HOUR / 4)
    assert operator.group(Kind.TRAINIUM).nodes == []


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_stop_at_another_terminal_ends_a_start(operator: Operator, is_accepted: bool) -> None:
    """Before EKS takes the size, the stop has nothing to end, and its schedule asks each hour."""
    group = operator.group(Kind.TRAINIUM)

    def stop(moment: str) -> None:
        asks = moment == "before" and operator.aws.calls[-1] == "eks:UpdateNodegroupConfig"
        if (group.is_busy and group.desired == 1) if is_accepted else asks:
            operator.aws.boundary = lambda _: None
            operator.stop()

    operator.aws.boundary = stop
    with pytest.raises(DeploymentError, match="were stopped while they were being started"):
        operator.start(Kind.TRAINIUM)
    assert group.desired == 0 or not is_accepted
    operator.aws.clock.advance(HOUR / 2)
    assert group.nodes == []


def test_nodes_that_somebody_started_without_a_guard_get_one(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator.aws, "_limits", None)  # until then nothing guards them
    operator.start(Kind.TRAINIUM, HOUR)
    del operator.aws.scheduler.groups["article-guard"]["trainium-1-to-zero"]
    operator.start(Kind.TRAINIUM)
    left = guarded(operator) - operator.aws.clock.seconds
    assert left == pytest.approx(4 * HOUR, rel=0.02)


def test_nodes_of_one_group_outlive_a_deploy_that_replaces_the_other(operator: Operator) -> None:
    """Also if they were asked for just now."""
    operator.aws.pace.report = 110
    interrupted_once_asked(operator, 1, lambda: operator.start(Kind.TRAINIUM))
    operator.generations["compile"] = 2
    operator.deploy()
    operator.aws.clock.advance(HOUR)
    assert operator.aws.eks.groups.keys() == {"trainium-1", "compile-2"}
    assert len(operator.group(Kind.TRAINIUM).nodes) == 1

    # One that is replaced goes with its nodes, and the new one has none.
    operator.generations["trainium"] = 2
    operator.deploy()
    operator.aws.clock.advance(HOUR)
    assert operator.aws.eks.groups.keys() == {"trainium-2", "compile-2"}
    assert operator.group(Kind.TRAINIUM).nodes == []

    # And its guard stays: CloudFormation may fail to delete it.
    operator.start(Kind.TRAINIUM)
    schedules = operator.aws.scheduler.groups["article-guard"]
    assert {"trainium-1-to-zero", "trainium-2-to-zero"} <= schedules.keys()


def test_the_guard_is_seen_to_act_once_before_there_are_nodes(operator: Operator) -> None:
    operator.prove()
    statuses = [update["status"] for update in operator.group(Kind.TRAINIUM).updates]
    assert statuses == ["Successful"] * 2  # by the command itself, and by the schedule

    def proved() -> list[Kind]:
        groups = nodes.groups(operator.deployment)
        return [group.kind for group in groups if guard.is_proved(operator.deployment, group)]

    assert proved() == [*Kind]
    operator.aws.clock.advance(24 * HOUR)
    assert len(operator.group(Kind.TRAINIUM).updates) == 2

    operator.generations["compile"] = 2
    operator.deploy()
    operator.aws.clock.advance(HOUR)
    assert proved() == [Kind.TRAINIUM]


def test_a_guard_that_may_not_act_is_not_proved(operator: Operator) -> None:
    operator.aws.scheduler.is_denied = True
    with pytest.raises(DeploymentError, match="the guard of the trainium nodes and compile nodes"):
        operator.prove()
    (group, _) = nodes.groups(operator.deployment)
    assert not guard.is_proved(operator.deployment, group)


def test_a_group_has_no_more_nodes_than_it_may_and_none_is_taken_away(operator: Operator) -> None:
    guard.start(operator.deployment, Kind.COMPILE, 7)
    assert operator.group(Kind.COMPILE).desired == 4
    guard.start(operator.deployment, Kind.COMPILE, 1)
    assert operator.group(Kind.COMPILE).desired == 4


SEQUENCES: Final = 200
MINUTES: Final = float(os.environ.get("GUARD_MINUTES", "0"))

Action = Callable[[Operator], None]
Fault = Callable[[str], None]


def interrupt(_: str) -> None:
    raise KeyboardInterrupt


def lose(moment: str) -> None:
    """A call, or its answer."""
    if moment != "sleep":
        raise Lost(endpoint_url="https://aws")


def throttle(moment: str) -> None:
    """Too many calls."""
    if moment == "before":
        raise refused("ThrottlingException", "Rate exceeded")


KINDS: Final = st.sampled_from(Kind)
AT: Final = st.integers(0, 40)
"""A boundary of a command: most have fewer."""


def starts(*waits: float) -> st.SearchStrategy[Action]:
    return st.builds(
        lambda kind, wait: lambda operator: operator.start(kind, wait),
        KINDS,
        st.sampled_from(waits),
    )


STARTS: Final = starts(0.0, 10 * MINUTE, 2 * HOUR)
ENDS: Final = st.sampled_from(
    [Operator.stop, Operator.stop, Operator.prove, Operator.deploy, Operator.destroy]
)
FAULTS: Final = st.sampled_from([interrupt, interrupt, lose, throttle])
ELSEWHERE: Final = st.one_of(starts(0.0, 10 * MINUTE), ENDS)
"""What somebody does at a second terminal, while the first one is held up."""


class Commands(RuleBasedStateMachine):
    """Whether all nodes are guarded is asked whenever a call takes effect or something happens."""

    def __init__(self) -> None:
        super().__init__()
        self._entered = node_operator()
        self.operator = self._entered.__enter__()
        self.aws = self.operator.aws

    @rule(action=STARTS, fault=st.none() | FAULTS, at=AT)
    def start(self, action: Action, fault: Fault | None, at: int) -> None:
        self._perform(action, {at: fault} if fault else {})

    @rule(action=ENDS, fault=st.none() | FAULTS, at=AT)
    def end(self, action: Action, fault: Fault | None, at: int) -> None:
        self._perform(action, {at: fault} if fault else {})

    @rule(action=STARTS | ENDS, second_action=ELSEWHERE, at=AT, fault=st.none() | FAULTS, delay=AT)
    def two_terminals(
        self, action: Action, second_action: Action, at: int, fault: Fault | None, delay: int
    ) -> None:
        second = {at: lambda _: self._perform(second_action, {})}
        self._perform(action, second | ({at + 1 + delay: fault} if fault else {}))

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
        fails=st.booleans(),
    )
    def edit_the_file(self, generation: int, compiling: int | None, fails: bool) -> None:
        groups = {"trainium": generation} | ({"compile": compiling} if compiling else {})
        self.operator.generations = groups
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

    def _perform(self, action: Action, mishaps: Mapping[int, Fault]) -> None:
        self.operator.command(lambda: action(self.operator), mishaps)


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


def test_a_guard_that_begins_to_act_during_a_start_gets_no_later_date() -> None:
    """The property found this order, about once in ten thousand."""
    state = Commands()
    state.two_terminals(
        Operator.stop, lambda operator: operator.start(Kind.TRAINIUM, 600.0), 13, None, 0
    )
    state.wait(14_310.0)
    state.start(lambda operator: operator.start(Kind.COMPILE), None, 0)
    state.start(lambda operator: operator.start(Kind.TRAINIUM), None, 0)
    state.teardown()
