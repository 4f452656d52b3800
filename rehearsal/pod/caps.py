"""What a rehearsal asks less of than the pod does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from spectap.config import Config, TestCase
from spectap.load_points import Load, LoadPoint, Rounds


@dataclass(frozen=True)
class Caps:
    """The most that endpoints on this machine are asked for; None: whatever the pod asks for."""

    rounds: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    """Load points with more in flight are left out.

    A single one has so many in place of its own. Of several, two remain, since the metrics of a
    ladder name the load point and those of a single one do not: for want of others the lowest,
    each with no more requests than are in flight at once.
    """
    rate_seconds: float | None = None
    """How long an open loop lasts in a round."""
    prompts: int | None = None
    """Of a prompt set."""

    def applied(self, of_pod: Config) -> Config:
        """The configuration with nothing above the caps."""
        cases = tuple(map(self._case, of_pod.test_cases))
        return of_pod.model_copy(update={"load": self._load(of_pod.load), "test_cases": cases})

    def _load(self, load: Load) -> Load:
        rounds = load.rounds
        if self.rounds is not None and rounds.at_most > self.rounds:
            rounds = Rounds.model_validate(self.rounds)
        changes = {
            "rounds": rounds,
            "mean_output_tokens": _least(load.mean_output_tokens, self.output_tokens),
            "points": tuple(self._points(load.points)),
        }
        return load.model_copy(update=changes)

    def _points(self, points: tuple[LoadPoint, ...]) -> Iterator[LoadPoint]:
        if len(points) == 1 and self._too_many(points[0]):
            yield points[0].model_copy(update={"concurrency": self.concurrency})
            return
        too_many = sorted(filter(self._too_many, points), key=lambda point: point.concurrency or 0)
        missing = max(0, min(2, len(points)) - (len(points) - len(too_many)))
        left_out = {point.name for point in too_many[missing:]}
        for point in points:
            if point.name not in left_out:
                requests = min(point.requests, self._requests(point))
                yield point.model_copy(update={"requests": requests})

    def _too_many(self, point: LoadPoint) -> bool:
        return (point.concurrency or 0) > (self.concurrency or math.inf)

    def _requests(self, point: LoadPoint) -> int:
        """The most in a round."""
        if point.rate is not None and self.rate_seconds is not None:
            return max(1, round(point.rate * self.rate_seconds))
        if point.concurrency is not None and self._too_many(point):
            return point.concurrency
        return point.requests

    def _case(self, case: TestCase) -> TestCase:
        if case.prompts is None or self.prompts is None:
            return case
        limit = _least(case.prompts.limit or self.prompts, self.prompts)
        return case.model_copy(update={"prompts": case.prompts.model_copy(update={"limit": limit})})


def _least(value: int, cap: int | None) -> int:
    return value if cap is None else min(value, cap)
