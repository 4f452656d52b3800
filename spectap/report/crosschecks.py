"""The rows of the cross-check, as text: what the ledger and the server both counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from spectap import wording
from spectap.analysis.crosscheck import Check
from spectap.report.results import Results


@dataclass(frozen=True)
class Checked:
    """One line of the cross-check: a quantity of one variant of a test case."""

    case: str
    variant: str
    figure: str
    ledger: str
    server: str
    apart: str
    agrees: bool


def checked(run: Results) -> tuple[tuple[str, tuple[Checked, ...]], ...]:
    """For each test case, what ledger and server both counted.

    Positions and times are shown only: they need not agree.
    """
    order = [(case.name, cell.variant) for case in run.summary.cases for cell in case.cells]
    checks = sorted(run.checks, key=lambda check: order.index((check.case, check.variant)))
    lines = (line for check in checks for line in _checked(check))
    return tuple((case, tuple(own)) for case, own in groupby(lines, lambda line: line.case))


def _checked(check: Check) -> Iterator[Checked]:
    for figure in check.figures:
        cut = f" to {figure.ledger + figure.cut:,.0f}" if figure.cut else ""
        yield Checked(
            check.case,
            check.variant,
            figure.name,
            f"{figure.ledger:,.0f}{cut}",
            f"{figure.server:,.0f}",
            f"{figure.disagreement:.2%}",
            figure.agrees,
        )
    if check.positions:
        ledger, server = (
            " ".join(f"{100 * part:.0f}" for part in side)
            for side in zip(*check.positions, strict=True)
        )
        yield Checked(
            check.case, check.variant, "accepted by position, %", ledger, server, "", True
        )
    if check.token_seconds:
        ledger, server = map(wording.milliseconds, check.token_seconds)
        yield Checked(check.case, check.variant, "mean TPOT, ms", ledger, server, "", True)
