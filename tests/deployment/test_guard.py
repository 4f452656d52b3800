"""No node stands unguarded: whatever people do, EKS reports late, refuses or fails.

``GUARD_MINUTES=10`` tries the property for so long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from deployment.nodes import Kind
from tests.deployment.fake_aws import HOUR, MINUTE
from tests.deployment.operators import Mishap, Office, interrupt, lose, office, throttle

SEQUENCES: Final = 2000
MINUTES: Final = float(os.environ.get("GUARD_MINUTES", "0"))

Action = Callable[[Office], None]

KINDS: Final = st.sampled_from(Kind)
AT: Final = st.integers(0, 40)
"""A boundary of a command: most have fewer."""


def starts(*waits: float) -> st.SearchStrategy[Action]:
    return st.builds(
        lambda kind, wait: lambda made: made.start(kind, wait), KINDS, st.sampled_from(waits)
    )


STARTS: Final = starts(0.0, 10 * MINUTE, 2 * HOUR)
ENDS: Final = st.sampled_from([Office.stop, Office.stop, Office.deploy, Office.destroy])
FAULTS: Final = st.sampled_from([interrupt, interrupt, lose, throttle])
ELSEWHERE: Final = st.one_of(starts(0.0, 10 * MINUTE), ENDS)
"""What somebody does at a second terminal, while the first one is held up."""


class Commands(RuleBasedStateMachine):
    """Whether all nodes are guarded is asked whenever a call takes effect or something happens."""

    def __init__(self) -> None:
        super().__init__()
        self._entered = office()
        self.office = self._entered.__enter__()
        self.aws = self.office.aws

    @rule(action=STARTS, fault=st.none() | FAULTS, at=AT)
    def start(self, action: Action, fault: Callable[[str], None] | None, at: int) -> None:
        self._perform(action, [Mishap(at, fault)] if fault else [])

    @rule(action=ENDS, fault=st.none() | FAULTS, at=AT)
    def end(self, action: Action, fault: Callable[[str], None] | None, at: int) -> None:
        self._perform(action, [Mishap(at, fault)] if fault else [])

    @rule(action=STARTS | ENDS, other=ELSEWHERE, at=AT, fault=st.none() | FAULTS, then=AT)
    def two_terminals(
        self,
        action: Action,
        other: Action,
        at: int,
        fault: Callable[[str], None] | None,
        then: int,
    ) -> None:
        second = Mishap(at, lambda _: self._perform(other, []))
        self._perform(action, [second, *([Mishap(at + 1 + then, fault)] if fault else [])])

    @rule(
        update=st.sampled_from([5.0, 20.0, 90.0, 8 * MINUTE]),
        report=st.sampled_from([0.0, 30.0, 110.0]),
        capacity=st.sampled_from([3 * MINUTE, 90 * MINUTE, 3 * HOUR, None]),
        fails=st.sampled_from([False, False, True]),
    )
    def change_of_pace(
        self, update: float, report: float, capacity: float | None, fails: bool
    ) -> None:
        pace = self.aws.pace
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
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            Commands,
            settings=settings(
                max_examples=SEQUENCES,
                stateful_step_count=8,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
                suppress_health_check=[*HealthCheck],
            ),
        )
        if time.monotonic() > until:
            return


def test_a_stop_soon_after_a_start_leaves_no_node() -> None:
    """EKS still reports a size of 0 when the nodes are stopped."""
    with office() as made:
        trainium, made.aws.pace.report = made.group(Kind.TRAINIUM), 30

        def press_ctrl_c(_: str) -> None:
            if trainium.desired:
                raise KeyboardInterrupt

        made.aws.boundary = press_ctrl_c
        with pytest.raises(KeyboardInterrupt):
            made.start(Kind.TRAINIUM)
        made.aws.boundary = lambda _: None
        assert (trainium.desired, trainium.reported) == (1, 0)

        made.stop()

        made.aws.check()
        assert trainium.desired == 0
        made.aws.clock.advance(HOUR)
        assert trainium.nodes == []
