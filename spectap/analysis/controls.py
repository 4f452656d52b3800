"""What changed between variants that were measured one after another, as their controls show it.

Each of them begins and ends with the same short load, a control. A step of it takes as long as the
devices take, however many drafts are accepted, so the two differ by what changed in between: the
node, and what else runs there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from spectap.analysis.estimates.estimate import Estimate, Part
from spectap.names import CONTROL, WARM_UP
from spectap.record import Record


@dataclass(frozen=True)
class Unsteadiness:
    """How much a variant's time changes from one control to the other, by no doing of its own."""

    change: float
    """The root mean square over the variants, of the natural logarithm of a step's time."""
    variants: int
    """How many have controls at both ends: degrees of freedom of ``change``."""
    seconds: float
    """How far the two ends are apart, on average."""
    middles: Mapping[str, float]
    """When each variant was measured: half of its time, in Unix seconds."""

    def widened(self, estimate: Estimate, variant: str, baseline: str) -> Estimate:
        """A ratio of two variants, as sure as it is when both were measured at these times."""
        return estimate.widened(Part(self.between(variant, baseline), self.variants))

    def between(self, variant: str, baseline: str) -> float:
        """The standard error that the time between two variants adds to the logarithm of a ratio.

        It is ``change`` where they follow one another, or were measured at the same time on other
        devices. Where they are further apart its square grows in proportion, as what wanders does.
        """
        apart = abs(self.middles[variant] - self.middles[baseline])
        return self.change * math.sqrt(max(1.0, apart / self.seconds))


def unsteadiness(records: Iterable[Record]) -> Unsteadiness | None:
    """What the controls among ``records`` show; None where no variant has them at both ends.

    ``records`` are all of a run: earlier attempts are controls like the last.
    """
    by_variant = defaultdict(list)
    for record in records:
        by_variant[record.variant].append(record)
    changes = [change for own in by_variant.values() for change in _changes(own)]
    if not changes:
        return None
    return Unsteadiness(
        change=math.sqrt(fmean(log**2 for log, _ in changes)),
        variants=len(changes),
        seconds=fmean(seconds for _, seconds in changes),
        middles={name: middle for name, own in by_variant.items() for middle in _middles(own)},
    )


def _changes(records: Sequence[Record]) -> Iterator[tuple[float, float]]:
    """Of one variant: the logarithm of its slowest control by its fastest, and the time between
    its first and its last, in seconds."""
    attempts: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if record.round == CONTROL and record.succeeded and len(record.chunks) > 1:
            attempts[record.attempt].append(record)
    times = [median(step for record in own for step in _steps(record)) for own in attempts.values()]
    sent = [min(record.sent for record in own) for own in attempts.values()]
    if len(times) > 1 and min(times) > 0 and max(sent) > min(sent):
        yield math.log(max(times) / min(times)), max(sent) - min(sent)


def _middles(records: Sequence[Record]) -> Iterator[float]:
    measured = [record for record in records if record.round > WARM_UP]
    if measured:
        first = min(record.sent for record in measured)
        yield (first + max(record.sent + record.end for record in measured)) / 2


def _steps(record: Record) -> Iterator[float]:
    """The time of each step. Their median, and not their mean, is a control's: a client that stalls
    for once reads several steps as one long one, which says nothing of the devices."""
    return (later - earlier for (earlier, _), (later, _) in pairwise(record.chunks))
