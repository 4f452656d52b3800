"""How load points are written: one of them, several of them, and a load between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectap import wording
from spectap.analysis.summary import Cell
from spectap.config import Config
from spectap.load_points import Load, LoadPoint


def words(points: Sequence[LoadPoint | None]) -> str:
    """Load points to stand after "at": ``concurrency 1, 2 and 4, and 0.5 requests a second``."""
    closed = [f"{point.concurrency}" for point in points if point and not point.open]
    rates = [f"{point.amount:g}" for point in points if point and point.open]
    kinds = [f"concurrency {wording.listed(closed)}"] if closed else []
    if rates:
        kinds.append(f"{wording.listed(rates)} request{'' if rates == ['1'] else 's'} a second")
    return ", and ".join(kinds)


def beside(point: LoadPoint) -> str:
    """A load point to stand right after a title."""
    return f" at {words([point])}"


def arrangement(config: Config) -> str:
    """How the variants of a turn were loaded; empty where there is no other."""
    if len(config.variants) < 2:
        return ""
    if config.apart:
        return "variants one after another"
    return "variants by turns" if config.alternate else "variants beside each other"


def short(point: LoadPoint | None) -> str:
    """A load point where there is little room: ``4`` at once, ``0.5/s``."""
    if point is None:
        return wording.MISSING
    return f"{point.amount:g}{'/s' if point.open else ''}"


def unit(points: Sequence[LoadPoint]) -> str:
    """What the load points of one kind count: ``at once`` or ``a second``."""
    return "a second" if points[0].open else "at once"


def requests(load: Load) -> str:
    """How many requests one variant gets in a turn: ``4``, or ``4 to 40`` by the load point."""
    requests = [point.requests for point in load.points]
    fewest, most = min(requests), max(requests)
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"


def mark(cell: Cell) -> str:
    """What to know of a cell's load before reading its figures; empty where that is nothing."""
    return ", ".join(_marks(cell))


def letters(cell: Cell) -> str:
    """The same in letters: ``q``, ``l``."""
    return "".join(word[0] for word in _marks(cell))


def _marks(cell: Cell) -> Iterator[str]:
    if cell.queued:
        yield "queue"
    if cell.lagging:
        yield "lagged"
