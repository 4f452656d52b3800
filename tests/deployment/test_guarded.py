"""No node stands unguarded: whatever people do, EKS reports late, refuses or fails.

``GUARD_MINUTES=10`` tries the property for so long.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from deployment.nodes import Kind
from tests.deployment.fake_aws import HOUR, MINUTE, Lost
from tests.deployment.fake_aws.service import refused
from tests.deployment.operators import Operator, node_operator

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
        maximum=st.integers(4, 5),
        fails=st.booleans(),
    )
    def edit_the_file(
        self, generation: int, compiling: int | None, maximum: int, fails: bool
    ) -> None:
        groups = {"trainium": generation} | ({"compile": compiling} if compiling else {})
        self.operator.generations, self.operator.maximum = groups, maximum
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
