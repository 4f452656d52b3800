"""What is told beside every speed-up: queues, failures, lags, and decoding that misleads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spectap.analysis.estimates.intervals import Interval
from spectap.analysis.summary import Cell, Finding


def cautions(cells: Iterable[Cell], *, at: bool) -> Iterator[str]:
    """Clauses that begin with a name or a number.

    ``cells`` are those of variants that are compared, and of their baselines. ``at``: whether a
    clause names the loads, as it must where there are several.
    """
    by_variant: dict[str, list[Cell]] = {}
    for cell in cells:
        by_variant.setdefault(cell.variant, []).append(cell)
    for name, own in by_variant.items():
        if queued := [cell for cell in own if cell.queued]:
            yield f"{name} requests queue{_loads(queued, at)}"
        if failed := [cell for cell in own if cell.errors]:
            errors = sum(cell.errors for cell in failed)
            requests = sum(cell.requests for cell in failed)
            yield f"{errors} of {requests} {name} requests failed{_loads(failed, at)}"
        if late := [cell for cell in own if cell.lagging]:
            yield f"{name} requests were sent late, so the load was another{_loads(late, at)}"


def decoding(cells: Iterable[Cell], *, at: bool) -> Iterator[str]:
    """For each variant that decodes faster where its requests are not, a clause that says both."""
    misleading: dict[tuple[str, bool], list[tuple[Cell, Interval, Interval]]] = {}
    for cell in cells:
        compared = cell.comparison
        if compared and compared.only_decodes_faster:
            speed, alone = compared.speedup, compared.by_time_per_output_token
            assert speed
            assert alone
            slower = compared.verdict.finding is Finding.SLOWER
            misleading.setdefault((cell.variant, slower), []).append((cell, speed, alone))
    for (name, slower), rows in misleading.items():
        where = _loads([cell for cell, *_ in rows], at)
        decodes = f"{name} decodes {_times([alone.point for *_, alone in rows])} as fast{where}"
        if slower:
            longer = _times([1 / speed.point for _, speed, _ in rows])
            yield f"{name} requests take {longer} as long, though {decodes}"
        else:
            yield f"{name} requests are not surely faster, though {decodes}"


def _times(ratios: Sequence[float]) -> str:
    """``1.65x``, or ``2.90x to 3.05x``."""
    low, high = (f"{bound(ratios):.2f}x" for bound in (min, max))
    return low if low == high else f"{low} to {high}"


def _loads(cells: Sequence[Cell], named: bool) -> str:
    """`` from 4 at once``: the lowest load of each kind; empty unless they are ``named``."""
    points = [cell.load for cell in cells if cell.load]
    lowest = (
        min((point.amount for point in points if point.open == kind), default=None)
        for kind in (False, True)
    )
    shown = [
        f"{amount:g} {unit}"
        for amount, unit in zip(lowest, ("at once", "a second"), strict=True)
        if amount is not None
    ]
    return f" from {' and '.join(shown)}" if named and shown else ""
