"""How service-level objectives are written, and what share of requests met them."""

from __future__ import annotations

from collections.abc import Iterator

from spectap import wording
from spectap.analysis.summary import Cell
from spectap.config import Objectives


def words(objectives: Objectives) -> str:
    """What was promised: ``p90 of TTFT within 800 ms, p90 of TPOT within 40 ms``."""
    return ", ".join(f"p90 of {name} within {limit:g} ms" for name, limit in limits(objectives))


def limits(objectives: Objectives) -> Iterator[tuple[str, float]]:
    """The measure, and its limit in milliseconds, of each objective there is."""
    for name, limit in (
        ("TTFT", objectives.ttft_p90_ms),
        ("TPOT", objectives.tpot_p90_ms),
        ("E2E", objectives.e2e_p90_ms),
    ):
        if limit is not None:
            yield name, limit


def texts(cell: Cell) -> tuple[str, str]:
    """The share of requests that met all of them, with its interval; and whether each was kept."""
    found = cell.goodput
    if found is None:
        return wording.MISSING, wording.MISSING
    share = f"{100 * found.share:.0f} %"
    if found.interval is not None:
        low, high = (f"{100 * bound:.0f}" for bound in found.interval)
        share += f" ({low}-{high})"
    return share, kept(cell)


def kept(cell: Cell) -> str:
    """Whether each percentile keeps its limit: ``kept`` or ``missed``."""
    if cell.goodput is None:
        return wording.MISSING
    return "kept" if cell.goodput.met else "missed"
