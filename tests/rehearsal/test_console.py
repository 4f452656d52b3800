"""Steps are shown on a terminal and in a log."""

from __future__ import annotations

import io
import re

import pytest

from rehearsal.console import Steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(stream: io.StringIO) -> str:
    steps = Steps(2, stream)
    with steps.step("first") as step:
        step.found = "something"
    with steps.step("second", shows_itself=True):
        pass
    assert [step.title for step in steps.done] == ["first", "second"]
    return re.sub(r"\d\.\d s", "0.0 s", stream.getvalue())


def test_plain_lines_in_a_log() -> None:
    assert show(io.StringIO()) == (
        "[1/2] first\n      something, 0.0 s\n[2/2] second\n      0.0 s\n"
    )


def test_one_line_for_a_step_on_a_terminal() -> None:
    left = [line.rpartition("\x1b[2K")[2] for line in show(Terminal()).split("\n")]
    assert left == ["[1/2] first: something, 0.0 s", "[2/2] second", "      0.0 s", ""]


def test_a_step_that_fails_stays_the_current_one() -> None:
    stream = Terminal()
    steps = Steps(1, stream)

    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"), steps.step("first"):
        fail()
    assert steps.current is not None
    assert steps.current.title == "first"
    assert steps.done == []
    # Nothing of the turning sign is left in front of the line that says what went wrong.
    assert stream.getvalue().endswith("\x1b[2K")
