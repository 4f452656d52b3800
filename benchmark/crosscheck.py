"""The ledger against the server's own counters: two counts that share nothing but the tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmark import measures
from benchmark.counters import Count
from benchmark.ledger import Record

TOLERANCE: Final = 0.01
"""Part of the server's figure that the ledger's may differ from it."""


@dataclass(frozen=True)
class Figure:
    """One quantity, counted twice.

    ``cut``: by how much the server's may exceed the ledger's, because the last step of an answer is
    cut at the answer's length: the server counts what it accepted, the ledger what arrived.
    """

    name: str
    ledger: float
    server: float
    cut: int = 0

    @property
    def disagreement(self) -> float:
        """How far the server's is from what the ledger allows, as a part of it."""
        excess = max(self.ledger - self.server, self.server - self.ledger - self.cut, 0)
        return excess / self.server if self.server else float(excess > 0)

    @property
    def agrees(self) -> bool:
        """Whether the two are within the tolerance."""
        return self.disagreement <= TOLERANCE


@dataclass(frozen=True)
class Check:
    """One variant of a test case.

    ``figures`` must agree. ``positions``: for the n-th draft, the part of the steps in which the
    ledger saw it accepted, and the server did. ``token_seconds``: mean time per output token by the
    ledger and by the server, which differ by the way between them. Both are there to be seen.
    """

    case: str
    variant: str
    figures: tuple[Figure, ...]
    positions: tuple[tuple[float, float], ...]
    token_seconds: tuple[float, float] | None

    @property
    def failures(self) -> tuple[str, ...]:
        """A line for each figure that does not agree."""
        return tuple(
            f"{self.case}, {self.variant}: {figure.name}: {figure.ledger:,.0f} in the ledger, "
            f"{figure.server:,.0f} by the server's own count, {figure.disagreement:.1%} apart"
            for figure in self.figures
            if not figure.agrees
        )


def check(records: Sequence[Record], counts: Iterable[Count]) -> tuple[Check, ...]:
    """A check for each variant of a test case that the server has counters for.

    A load of which a request failed is left out: the server may have counted what never arrived.
    """
    by_id = {record.request: record for record in records}
    pairs: dict[tuple[str, str], tuple[list[Record], list[Count]]] = {}
    for count in counts:
        own = [by_id[name] for name in count.requests if name in by_id]
        if len(own) < len(count.requests) or not all(r.succeeded and r.per_chunk for r in own):
            continue
        found = pairs.setdefault((count.case, count.variant), ([], []))
        found[0].extend(own)
        found[1].append(count)
    return tuple(_check(*key, *pair) for key, pair in pairs.items())


def _check(case: str, variant: str, records: list[Record], counts: list[Count]) -> Check:
    counted = [count.counters for count in counts]
    drafts = sum(c.drafts for c in counted)
    figures = [
        Figure(
            "tokens",
            sum(r.output_tokens or 0 for r in records),
            sum(c.generation_tokens for c in counted),
        )
    ]
    positions: tuple[tuple[float, float], ...] = ()
    # Without a draft there is nothing to compare: an image may not count them at all.
    if drafts:
        window = round(sum(c.draft_tokens for c in counted) / drafts)
        figures += _speculation(records, drafts, sum(c.accepted for c in counted), window)
        by_server = [sum(column) for column in zip(*(c.per_position for c in counted), strict=True)]
        positions = tuple(_positions(records, by_server, drafts))
    return Check(case, variant, tuple(figures), positions, _token_seconds(records, counts))


def _speculation(
    records: Sequence[Record], drafts: int, accepted: int, window: int
) -> Iterator[Figure]:
    steps = [tokens for record in records for _, tokens in record.chunks[1:]]
    # A step yields one token more than it accepts drafts: window + 1 at most.
    cut = sum(max(0, window + 1 - r.chunks[-1][1]) for r in records if len(r.chunks) > 1)
    yield Figure("steps", len(steps), drafts)
    yield Figure("accepted drafts", sum(steps) - len(steps), accepted, cut)


def _positions(
    records: Sequence[Record], by_server: Sequence[int], drafts: int
) -> Iterator[tuple[float, float]]:
    steps = [tokens for record in records for _, tokens in record.chunks[1:]]
    for position, count in enumerate(by_server, start=1):
        yield sum(tokens > position for tokens in steps) / max(1, len(steps)), count / drafts


def _token_seconds(
    records: Sequence[Record], counts: Sequence[Count]
) -> tuple[float, float] | None:
    values = [value for r in records if (value := measures.time_per_output_token(r)) is not None]
    timed = sum(count.counters.timed for count in counts)
    if not values or not timed:
        return None
    return sum(values) / len(values), sum(c.counters.token_seconds for c in counts) / timed
