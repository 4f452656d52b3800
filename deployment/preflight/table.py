"""The findings as a table of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from deployment.preflight.finding import Finding, Status
from spectap.printing import printable

_GAP: Final = "  "
_NARROWEST: Final = 24
"""Columns of the text, however narrow the terminal is."""


def lines(findings: Sequence[Finding], width: int) -> Iterator[str]:
    """Status, subject and text of each finding, wrapped to ``width`` columns."""
    first = max(len(status) for status in Status)
    second = max(len(finding.subject) for finding in findings)
    indent = " " * (first + second + 2 * len(_GAP))
    room = max(width - len(indent), _NARROWEST)
    for its in findings:
        texts = [*_wrapped(its.found, room), *_wrapped(its.remedy, room, "-> ")]
        yield f"{its.status:{first}}{_GAP}{its.subject:{second}}{_GAP}{texts[0]}"
        yield from (indent + text for text in texts[1:])


def summary(findings: Sequence[Finding]) -> str:
    """How many of each, and that nothing was created."""
    count = {status: sum(its.status is status for its in findings) for status in Status}
    warnings = "1 warning" if count[Status.WARNING] == 1 else f"{count[Status.WARNING]} warnings"
    return (
        f"{count[Status.OK]} ok, {warnings}, {count[Status.REFUSED]} refused; nothing was created"
    )


def _wrapped(text: str, room: int, mark: str = "") -> list[str]:
    """Commands and addresses are not broken at their hyphens, so that they can be copied."""
    wrapped = textwrap.wrap(
        text,
        room,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [printable(line) for line in wrapped]
