"""Stages are shown on a terminal and in a log."""

from __future__ import annotations

import io
import re

import pytest

from deployment.console import Console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(stream: io.StringIO) -> str:
    console = Console(2, stream)
    with console.stage("first") as stage:
        stage.found = "something"
    with console.stage("second", shows_itself=True):
        pass
    assert [stage.title for stage in console.done] == ["first", "second"]
    return re.sub(r"\d\.\d s", "0.0 s", stream.getvalue())


def test_plain_lines_in_a_log() -> None:
    assert show(io.StringIO()) == (
        "[1/2] first\n      something, 0.0 s\n[2/2] second\n      0.0 s\n"
    )


def test_one_line_for_a_stage_on_a_terminal() -> None:
    left = [line.rpartition("\x1b[2K")[2] for line in show(Terminal()).split("\n")]
    assert left == ["[1/2] first: something, 0.0 s", "[2/2] second", "      0.0 s", ""]


def test_a_stage_that_fails_stays_the_current_one() -> None:
    stream = Terminal()
    console = Console(1, stream)

    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"), console.stage("first"):
        fail()
    assert console.current is not None
    assert console.current.title == "first"
    assert console.done == []
    # Nothing of the spinner is left in front of the line that says what went wrong.
    assert stream.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_line_within_a_stage_stays(stream: io.StringIO) -> None:
    console = Console(1, stream)
    with console.stage("first") as stage:
        stage.now = "1 of 2"
        console.say("one is over")
    left = [line.rpartition("\x1b[2K")[2] for line in stream.getvalue().split("\n")]
    assert "      one is over" in left
