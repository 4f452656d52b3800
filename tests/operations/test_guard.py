"""What the guard of nodes does, and that no node stands unguarded, whatever happens."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from operations import guard, nodes
from operations.account import DeploymentError
from operations.nodes import Kind
from tests.operations.fake_aws import HOUR, MINUTE, Lost
from tests.operations.fake_aws.service import refused
from tests.operations.operators import Operator, node_operator

EVERY_MINUTE: Final = frozenset(range(60))
EVEN_MINUTES: Final = frozenset(range(0, 60, 2))


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


@pytest.mark.parametrize("kind", Kind)
def test_the_guard_takes_all_nodes_for_as_long_as_the_group_exists(
    operator: Operator, kind: Kind
) -> None:
    operator.start(kind)
    (action,) = operator.group(kind).actions.values()
    assert {action[name] for name in ("MinSize", "MaxSize", "DesiredCapacity")} == {0}
    assert action["Recurrence"] == "5-55/10 * * * *"
    assert "EndTime" not in action


def test_no_autoscaler_starts_more_than_was_asked_for(operator: Operator) -> None:
    """Nor any, from the deploy on, while nothing was asked for."""
    groups = [operator.group(kind) for kind in Kind]
    assert [group.most for group in groups] == [0, 0]
    operator.start(Kind.COMPILE, HOUR)
    assert [group.most for group in groups] == [0, 1]
    guard.start(operator.deployment, Kind.COMPILE, 3)
    guard.start(operator.deployment, Kind.COMPILE, 1)
    assert [(group.most, group.scaled) for group in groups] == [(0, 0), (3, 3)]
    operator.stop()
    operator.aws.clock.advance(5 * MINUTE)
    # As an update of the group by EKS does it, or somebody by hand.
    groups[1].most, groups[1].scaled = 2, 1
    operator.aws.clock.advance(15 * MINUTE)
    assert [(group.most, group.scaled) for group in groups] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("kind", Kind)
def test_an_eks_that_refuses_every_update_keeps_no_node(operator: Operator, kind: Kind) -> None:
    operator.start(kind, HOUR)
    operator.aws.pace.refuses = True
    operator.stop()
    assert operator.group(kind).scaled == 0
    with pytest.raises(DeploymentError, match="Nodegroup health has issues"):
        operator.start(kind)
    operator.aws.clock.advance(5 * HOUR)
    assert operator.group(kind).nodes == []


def test_a_guard_that_cannot_be_put_starts_no_node_and_hinders_no_stop(operator: Operator) -> None:
    trainium = operator.group(Kind.TRAINIUM)
    operator.aws.pace.contends = True
    with pytest.raises(DeploymentError, match="ResourceContention"):
        operator.start(Kind.TRAINIUM)
    assert trainium.updates == []
    operator.aws.pace.contends = False
    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.pace.contends = True
    operator.stop()
    assert trainium.scaled == 0
    operator.aws.pace.contends = False
    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.pace.contends = operator.aws.pace.refuses = True
    with pytest.raises(
        DeploymentError, match=r"Nodegroup health .* nor was its guard .*ResourceContention"
    ):
        operator.stop()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"suspended": ["AZRebalance", "ScheduledActions"]}, "has suspended ScheduledActions"),
        ({"suspended": ["Terminate", "Launch"]}, "has suspended Launch and Terminate"),
        ({"protects": True}, "protects new instances from scale-in"),
        ({"operator": "eks.amazonaws.com"}, "takes changes from eks.amazonaws.com alone"),
    ],
)
def test_what_would_defeat_the_guard_starts_no_node(
    operator: Operator, changes: dict[str, Any], words: str
) -> None:
    for name, value in changes.items():
        setattr(operator.group(Kind.TRAINIUM), name, value)
    with pytest.raises(DeploymentError, match=f"eks-trainium-1 {words}"):
        operator.start(Kind.TRAINIUM)
    assert operator.group(Kind.TRAINIUM).updates == []


def test_an_action_that_eks_has_at_that_time_does_not_keep_the_guard_away(
    operator: Operator,
) -> None:
    clock, trainium = operator.aws.clock, operator.group(Kind.TRAINIUM)
    of_eks: dict[str, Any] = {
        "StartTime": clock.moment(clock.seconds + 4 * HOUR + 5),
        "DesiredCapacity": 0,
    }
    trainium.actions["end-of-capacity-block"] = of_eks
    operator.start(Kind.TRAINIUM)
    assert guarded(operator) >= clock.seconds_of(of_eks["StartTime"]) + 50
    assert trainium.updates


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

    # The next start has its whole time, though EKS has not carried out what a run has asked for.
    operator.aws.pace.capacity, operator.aws.pace.update = 60, 110
    operator.aws.machines.start("trainium-1")
    operator.aws.clock.advance(80)
    assert operator.group(Kind.TRAINIUM).scaled == 1
    operator.start(Kind.TRAINIUM, HOUR)
    assert guarded(operator) - operator.aws.clock.seconds > 3.8 * HOUR


def test_what_an_earlier_start_has_left_does_not_end_a_later_one(operator: Operator) -> None:
    """Not even after a stop that was interrupted, before EKS has carried it out."""
    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.clock.advance(3.5 * HOUR)
    interrupted_once_asked(operator, 0, operator.stop)
    assert operator.group(Kind.TRAINIUM).scaled == 1
    assert guard.find(operator.deployment, Kind.TRAINIUM) is None

    operator.start(Kind.TRAINIUM, HOUR)
    operator.aws.clock.advance(3 * HOUR)
    assert operator.group(Kind.TRAINIUM).nodes


def test_a_stop_does_not_end_the_nodes_of_the_next_start(operator: Operator) -> None:
    """Though Auto Scaling carries out late what was due before it."""
    operator.aws.pace.late = 115
    for pause in range(0, 15 * 60, 50):
        operator.start(Kind.TRAINIUM, HOUR)
        operator.stop()
        operator.aws.clock.advance(pause)
        operator.start(Kind.TRAINIUM, HOUR)
        operator.aws.clock.advance(10 * MINUTE)
        assert operator.group(Kind.TRAINIUM).nodes
        operator.stop()


def test_an_eks_that_refuses_what_changes_nothing_stops_nobody(operator: Operator) -> None:
    operator.aws.pace.refuses_no_change = True
    operator.stop()
    operator.start(Kind.TRAINIUM, HOUR)
    operator.start(Kind.TRAINIUM, HOUR)
    operator.group(Kind.TRAINIUM).minimum = 1  # as somebody has asked for by hand
    group = nodes.find(operator.deployment, Kind.TRAINIUM)
    assert group
    nodes.resize(group, 0)
    assert operator.group(Kind.TRAINIUM).scaled == 0
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


def test_an_interrupted_stop_goes_on_without_its_terminal(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that it is ending are not started anew: their guard would count anew."""
    trainium = operator.group(Kind.TRAINIUM)
    monkeypatch.setattr(operator.aws, "_limits", None)  # for a while nothing guards them
    operator.start(Kind.TRAINIUM, HOUR)
    trainium.suspended = ["ScheduledActions"]  # since then
    operator.aws.pace.fails = True
    with pytest.raises(DeploymentError, match="is Failed: an internal error"):
        operator.stop()
    with pytest.raises(DeploymentError, match="are being ended, and there are to be 1 still"):
        operator.start(Kind.TRAINIUM)
    with pytest.raises(DeploymentError, match="is Failed"):
        operator.destroy()
    assert operator.aws.cloudformation.stack  # which would be deleted with nodes that go on
    trainium.suspended = []
    assert trainium.scaled == 1
    operator.aws.clock.advance(HOUR / 4)
    assert trainium.nodes == []


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_stop_at_another_terminal_ends_a_start(operator: Operator, is_accepted: bool) -> None:
    """Before EKS takes the size, the stop has nothing to end."""
    group = operator.group(Kind.TRAINIUM)

    def stop(moment: str) -> None:
        asks = moment == "before" and operator.aws.calls[-1] == "eks:UpdateNodegroupConfig"
        if (group.is_busy and group.desired == 1) if is_accepted else asks:
            operator.aws.boundary = lambda _: None
            operator.stop()

    operator.aws.boundary = stop
    with pytest.raises(DeploymentError, match="were stopped while they were being started"):
        operator.start(Kind.TRAINIUM)
    assert group.scaled == 0 or not is_accepted
    operator.aws.clock.advance(HOUR / 2)
    assert group.nodes == []


def test_nodes_that_somebody_started_without_a_guard_get_one(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator.aws, "_limits", None)  # until then nothing guards them
    operator.start(Kind.TRAINIUM, HOUR)
    operator.group(Kind.TRAINIUM).actions.clear()
    operator.start(Kind.TRAINIUM)
    left = guarded(operator) - operator.aws.clock.seconds
    assert left == pytest.approx(4 * HOUR, rel=0.02)


def test_nodes_of_one_group_outlive_a_deploy_that_replaces_the_other(operator: Operator) -> None:
    """Also if they were asked for just now."""
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
    operator.start(Kind.TRAINIUM, HOUR)
    assert guarded(operator) - operator.aws.clock.seconds > 3.8 * HOUR


SEQUENCES: Final = 200

Action = Callable[[Operator], None]
Fault = Callable[[str], None]


def interrupt(_: str) -> None:
    raise KeyboardInterrupt


def lose(moment: str) -> None:
    """A call, or its answer."""
    if moment != "sleep":
        raise Lost(endpoint_url="https://aws")


def throttle(moment: str) -> None:
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
ENDS: Final = st.sampled_from([Operator.stop, Operator.stop, Operator.deploy, Operator.destroy])
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
        late=st.sampled_from([0.0, 10.0, 115.0]),
        capacity=st.sampled_from([3 * MINUTE, 90 * MINUTE, 3 * HOUR, None]),
        fails=st.sampled_from([False, False, True]),
        strict=st.booleans(),
        refuses=st.sampled_from([False, False, True]),
        contends=st.sampled_from([False, False, True]),
        taken=st.sampled_from([frozenset[int](), EVEN_MINUTES, EVERY_MINUTE]),
    )
    def change_of_pace(self, strict: bool, **changes: Any) -> None:
        """Updates that fail are refused or carried out wrongly, and so are changes of a guard."""
        pace = self.aws.pace
        pace.refuses_no_change = strict
        for name, value in changes.items():
            setattr(pace, name, value)

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
            self.aws.clock.advance(5 * HOUR)
            assert not any(group.nodes for group in self.aws.eks.groups.values())
        finally:
            self._entered.__exit__(None, None, None)

    def _perform(self, action: Action, mishaps: Mapping[int, Fault]) -> None:
        self.operator.command(lambda: action(self.operator), mishaps)


def test_every_node_is_guarded_at_every_moment() -> None:
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
