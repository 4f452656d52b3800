"""Sets the ledger beside the server's own counts: of each load, and of each answer.

- *Tokens* are those of the answers that ended.
- *Steps* are passes of the target after the prefill. A server may count them as times between two
  outputs, as verified drafts, and as V0's generation tokens: each has to agree. Of verified drafts,
  steps may be missing that had none (n-gram finds none for some): each yields one token.
- *Accepted drafts* are the tokens that a step yields beyond its first.
- *By answers*: a server may tell drafts and steps of each answer, too (``Record.speculation``).
  Accepted drafts are those of the events; all of them add up to what the server counts of a load.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from spectap.endpoint.counters import Count, Counters, Obstacle
from spectap.names import WARM_UP
from spectap.records.record import Record

_TOKENS: Final = "tokens"
TOLERANCE: Final = 0.01  # how far the two may differ, as a part of the server's


@dataclass(frozen=True)
class Figure:
    """A quantity by the ledger and by the server."""

    name: str
    ledger: float
    server: float
    cut: int = 0
    """How far the server's count may exceed the ledger's: an answer's end cuts its last step."""

    @property
    def disagreement(self) -> float:
        """How far the server's figure is outside the allowed range, as a part of that figure."""
        excess = max(self.ledger - self.server, self.server - self.ledger - self.cut, 0)
        return excess / self.server if self.server > 0 else float(excess > 0)

    @property
    def agrees(self) -> bool:
        return self.disagreement <= TOLERANCE


@dataclass(frozen=True)
class Check:
    """The check of one variant under one test case at one load point."""

    case: str
    load: str
    """The load point's name; empty in earlier files."""
    variant: str
    figures: tuple[Figure, ...]
    """Empty where no load can be compared."""
    obstacles: tuple[Obstacle, ...] = ()
    """The reason why each load that is left out cannot be compared."""

    @property
    def confirms(self) -> bool | None:
        """Whether the counts confirm that an event is a step; None where no count tells."""
        others = [figure.agrees for figure in self.figures if figure.name != _TOKENS]
        return all(others) if others else None

    @property
    def disagreements(self) -> dict[str, str]:
        """A line for each figure that does not agree, by its name."""
        subject = ", ".join(filter(None, (self.case, self.load, self.variant)))
        return {
            figure.name: f"{subject}: {figure.name}: {figure.ledger:,.0f} in the ledger, "
            f"{figure.server:,.0f} by the server's own count, {figure.disagreement:.1%} apart"
            for figure in self.figures
            if not figure.agrees
        }

    @property
    def failures(self) -> tuple[str, ...]:
        """The disagreements by which the ledger may be wrong. Those on steps are left out where
        events are no steps, as where a server holds tokens back or splits them
        (vllm-project/vllm#45678)."""
        are_steps = any(figure.name == "steps" and figure.agrees for figure in self.figures)
        known, of_events = self.disagreements, () if are_steps else ("steps", "accepted")
        return tuple(line for name, line in known.items() if not name.startswith(of_events))


def check(records: Sequence[Record], counts: Iterable[Count]) -> tuple[Check, ...]:
    """Checks each cell that the server counts. A load with a failed request is left out: the server
    may have counted tokens that never arrived."""
    by_id = {record.request: record for record in records}
    pairs: dict[tuple[str, str, str], tuple[list[Record], list[Counters]]] = {}
    obstacles = defaultdict[tuple[str, str, str], list[Obstacle]](list)
    for count in counts:
        answered = [by_id[name] for name in count.requests if name in by_id]
        if len(answered) < len(count.requests) or not all(
            r.succeeded and r.per_chunk for r in answered
        ):
            continue
        key = count.case, count.load, count.variant
        sides = pairs.setdefault(key, ([], []))
        # Where nothing tells one process from another, a server's own number of answers may.
        others = count.counters.finished not in (0, sum(r.choices for r in answered))
        if count.obstacle or others:
            obstacles[key].append(count.obstacle or Obstacle.OTHERS)
            continue
        sides[0].extend(answered)
        sides[1].append(count.counters)
    for record in records:
        key = record.case, record.load, record.variant
        tells = record.speculation and record.succeeded and record.round > WARM_UP
        if tells and not pairs.get(key, ([], []))[1]:
            pairs.setdefault(key, ([], []))[0].append(record)
    for key, (_, counters) in pairs.items():
        if 0 < len(counters) < len(obstacles[key]):  # then these agree by chance
            pairs[key] = [], []
    return tuple(
        Check(*key, tuple(_figures(*pair)), tuple(obstacles[key])) for key, pair in pairs.items()
    )


def _figures(records: Sequence[Record], counted: Sequence[Counters]) -> Iterator[Figure]:
    if counted:
        tokens = sum(r.output_tokens or 0 for r in records)
        yield Figure(_TOKENS, tokens, sum(c.tokens for c in counted))
        yield from _steps(records, counted)
    # Without drafts there is nothing to compare. Some images do not count drafts at all.
    if any(c.drafts for c in counted) and all(record.shows_steps for record in records):
        # Not the mean of what was drafted: n-gram drafts as many tokens as it finds.
        widest = max(len(c.per_position) for c in counted)
        accepted = sum(c.accepted for c in counted)
        yield _accepted("accepted drafts", records, accepted, widest)
    yield from _by_answers(records, counted)


def _accepted(name: str, records: Sequence[Record], accepted: int, widest: int) -> Figure:
    # A step yields one token more than it accepts drafts.
    cut = sum(max(0, widest + 1 - r.counts[-1]) for r in records if len(r.chunks) > 1)
    arrived = sum(sum(record.counts[1:]) - max(0, len(record.chunks) - 1) for record in records)
    return Figure(name, arrived, accepted, cut)


def _by_answers(records: Sequence[Record], counted: Sequence[Counters]) -> Iterator[Figure]:
    speculations = [record.speculation for record in records if record.speculation]
    if not speculations or len(speculations) < len(records):
        return
    accepted = sum(each.accepted for each in speculations)
    if all(record.shows_steps for record in records):
        widest = max((max(record.counts[1:], default=1) for record in records), default=1) - 1
        yield _accepted("accepted drafts, by answers", records, accepted, widest)
    # What an answer has of each, and all of them together.
    if any(c.drafts for c in counted):
        yield Figure("all accepted drafts", accepted, sum(c.accepted for c in counted))
        yield Figure(
            "all drafts", sum(e.drafts for e in speculations), sum(c.draft_tokens for c in counted)
        )
        if all(each.steps is not None for each in speculations):
            steps = sum(each.steps or 0 for each in speculations)
            yield Figure("all steps with drafts", steps, sum(c.drafts for c in counted))


def _steps(records: Sequence[Record], counted: Sequence[Counters]) -> Iterator[Figure]:
    """The steps of both sides; None where a side does not count them. Of several counts of the
    server, the one furthest off."""
    yields = Counter(chain.from_iterable(record.counts[1:] for record in records))
    gaps, drafts = _gaps(counted), sum(c.drafts for c in counted)
    by_server = [] if gaps is None else [gaps]
    generated = sum(c.generation_tokens for c in counted)
    # Fewer than there were tokens, so V0 counted: one prefill for each answer, and the steps.
    if generated < sum(c.tokens for c in counted):
        by_server.append(generated - sum(c.finished for c in counted))
    without_drafts = 0 if gaps is None else gaps - drafts
    # Each step without drafts yielded a single token.
    if drafts and not 0 < without_drafts <= yields[1]:
        by_server.append(drafts)
    if by_server and all(record.shows_steps for record in records):
        steps = yields.total()
        yield Figure("steps", steps, max(by_server, key=lambda count: abs(count - steps)))


def _gaps(counted: Sequence[Counters]) -> int | None:
    """The gaps of all loads; None where one lacks them, since the others' steps would not match."""
    gaps = [c.gaps for c in counted if c.gaps is not None]
    return sum(gaps) if len(gaps) == len(counted) else None


def cached(records: Iterable[Record], counts: Iterable[Count]) -> dict[str, dict[str, float]]:
    """The share of prompt tokens that a cache answered, by test case and variant.

    A request's own usage is preferred to the server's counters, which include other clients. Cells
    of which neither tells are left out.
    """
    by_usage: dict[tuple[str, str], list[int]] = {}
    by_counters: dict[tuple[str, str], list[int]] = {}
    for record in records:
        if record.round > WARM_UP and record.prompt_tokens and record.cached_tokens is not None:
            sums = by_usage.setdefault((record.case, record.variant), [0, 0])
            sums[0] += record.cached_tokens
            sums[1] += record.prompt_tokens
    for count in counts:
        hits, queries = count.counters.cache_hits, count.counters.cache_queries
        if hits is not None and queries and count.obstacle is None:
            sums = by_counters.setdefault((count.case, count.variant), [0, 0])
            sums[0] += hits
            sums[1] += queries
    cases = defaultdict[str, dict[str, float]](dict)
    for (case, variant), (cached, tokens) in {**by_counters, **by_usage}.items():
        cases[case][variant] = min(1.0, cached / tokens)
    return dict(cases)
