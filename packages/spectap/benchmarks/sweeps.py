"""Runs of sweeps whose truth is known: made of golden schedules, without servers.

Each variant decodes by ``spectap.golden.schedule.Decoding``, at each load and on prompts of each
class. What else happens to a variant in a round makes all its times longer or shorter.
"""

import functools
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist, fmean
from typing import Any, Final

from spectap.golden.schedule import FREE, Cost, Decoding
from spectap.inputs.config import Config
from spectap.names import CONTROL
from spectap.records.record import Record, Speculation
from tests import samples

BASELINE: Final = "Base"
DRAFTS: Final = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B")
_STARTED: Final = 1_800_000_000.0
_HOUR: Final = 3600.0
_POPULATION: Final = 200
_END: Final = 0.001  # from the last chunk to the end of a request


@dataclass(frozen=True)
class Roofline:
    """Tokens are free up to the knee, where arithmetic takes as long as memory (2601.11580)."""

    knee: float

    def __call__(self, tokens: float) -> float:
        return max(1.0, tokens / self.knee)


@dataclass(frozen=True)
class Rounded:
    """A roofline without a corner: memory and arithmetic hide each other but in part."""

    knee: float

    def __call__(self, tokens: float) -> float:
        return math.hypot(1, tokens / self.knee) / math.hypot(1, 1 / self.knee)


@dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep and what is true of it."""

    name: str
    cost: Cost = FREE
    draft_costs: tuple[float, ...] = (0.05,)
    """Length of a draft pass, in target passes: one for each draft model."""
    acceptances: Mapping[str, tuple[float, ...]] = field(
        default_factory=lambda: {"structured": (0.9,)}
    )
    """By class, then by draft model."""
    windows: tuple[int, ...] = (3, 7, 15)
    loads: tuple[int, ...] = (4,)
    rounds: int = 6
    requests: int = 4
    """For each load, or the load where that is more."""
    tokens: int = 600
    prompts: int = 0
    """Of each class, as a set has them; 0 for a line that is repeated."""
    spread: float = 0.0
    """Standard deviation of the acceptance between the prompts of a class."""
    round: float = 0.003
    """Of the logarithm of a variant's times, from round to round."""
    wander: float | None = None
    """Variants are measured one after another, each for an hour. In that, the logarithm of all
    times wanders by this standard deviation. None: all at once."""

    def decoding(self, window: int, draft: int = 0) -> Decoding:
        """A window of 1 is the baseline."""
        return Decoding(drafts=window - 1, draft_cost=self.draft_costs[draft], cost=self.cost)

    def measured_speedup(self, prompt_class: str, window: int, load: int, draft: int = 0) -> float:
        """Expected of whole requests as they are: they end within a step, and prompts differ."""
        acceptances = self._population(prompt_class, draft)
        steps = fmean(expected_steps(each, window, self.tokens - 1) for each in acceptances)
        speculative, baseline = (
            side.prefill_seconds + _END + count * side.step_seconds(load)
            for side, count in (
                (self.decoding(window, draft), steps),
                (self.decoding(1), self.tokens - 1),
            )
        )
        return baseline / speculative

    @property
    def variants(self) -> dict[str, tuple[int, int]]:
        """Window and draft of each variant that speculates."""
        return {
            f"d{draft}-k{window}": (window, draft)
            for draft in range(len(self.draft_costs))
            for window in self.windows
        }

    def config(self) -> Config:
        """The configuration of its benchmark."""
        points = [
            {"concurrency": load, "requests": max(load, self.requests)} for load in self.loads
        ]
        return samples.config(
            experiment="sweep",
            variants=[{"name": BASELINE, **_ENDPOINT}, *self._speculating()],
            load=samples.load(points=points, rounds=self.rounds, mean_output_tokens=self.tokens),
            test_cases=[self._case(name) for name in self.acceptances],
            isolated=self.wander is not None,
        )

    def records(self, seed: int = 0) -> list[Record]:
        """The records of a run; ``seed`` selects it."""
        chance = random.Random(f"{self.name} {seed}")
        variants = {BASELINE: (1, 0), **self.variants}
        records, level = list[Record](), 0.0
        for position, (name, (window, draft)) in enumerate(variants.items()):
            decoding = self.decoding(window, draft)
            levels = [level]
            for _ in range(self.rounds):
                level += chance.gauss(0, (self.wander or 0.0) / math.sqrt(self.rounds))
                levels.append(level)
            start = _STARTED + (0 if self.wander is None else _HOUR * position)
            if self.wander is not None:
                for attempt, at in ((1, 0), (2, self.rounds)):
                    records.append(
                        replace(
                            next(self._turn(name, decoding, draft, 0, levels[at], seed)),
                            round=CONTROL,
                            attempt=attempt,
                            sent=start + (attempt - 1) * _HOUR,
                        )
                    )
            for number in range(1, self.rounds + 1):
                pace = levels[number] + chance.gauss(0, self.round)
                sent = start + _HOUR * number / (self.rounds + 1)
                records += (
                    replace(record, sent=sent)
                    for record in self._turn(name, decoding, draft, number, pace, seed)
                )
        return records

    def _speculating(self) -> Iterator[dict[str, Any]]:
        for name, (window, draft) in self.variants.items():
            yield {
                "name": name,
                **_ENDPOINT,
                "baseline": BASELINE,
                "mode": "fused",
                "draft": f"{DRAFTS[draft]} @ 12345678",
                "window": window,
                "drafts_per_step": window - 1,
                "batch": max(self.loads),
            }

    def _case(self, name: str) -> dict[str, Any]:
        if self.prompts:
            return {"name": name, "prompts": {"set": "simulated"}}
        return {"name": name, "structure": name if name in ("structured", "open-ended") else None}

    def _turn(
        self, name: str, decoding: Decoding, draft: int, number: int, pace: float, seed: int
    ) -> Iterator[Record]:
        """One round of a variant. ``pace`` is the logarithm of what all its times are longer by."""
        for load in self.loads:
            slow = math.exp(pace) * decoding.slowdown(load)
            for prompt_class, acceptances in self.acceptances.items():
                for request in range(max(load, self.requests)):
                    prompt, acceptance = "", acceptances[draft]
                    if self.prompts:
                        sent = number * max(load, self.requests) + request
                        prompt = f"prompt-{sent % self.prompts}"
                        chance = random.Random(f"{seed} {prompt_class} {prompt}")
                        acceptance = _likely(chance.gauss(acceptance, self.spread))
                    key = (seed, name, number, load, prompt_class, request)
                    steps = [*decoding.steps(self.tokens, acceptance, key)]
                    first = steps[0].at
                    chunks = tuple(
                        (first + slow * (step.at - first), step.tokens) for step in steps
                    )
                    yield replace(
                        _RECORD,
                        variant=name,
                        case=prompt_class,
                        round=number,
                        request=repr(key),
                        output_tokens=self.tokens,
                        chunks=chunks,
                        end=chunks[-1][0] + _END,
                        load=f"concurrency-{load}",
                        prompt=prompt,
                        prompt_class=prompt_class if prompt else "",
                        speculation=Speculation(
                            decoding.drafts * (len(steps) - 1),
                            sum(step.tokens - 1 for step in steps[1:]),
                        ),
                    )

    def _population(self, prompt_class: str, draft: int) -> list[float]:
        """Acceptances of prompts like those that are sent, by quantiles: no chance is in them."""
        mean = self.acceptances[prompt_class][draft]
        if not (self.prompts and self.spread):
            return [_likely(mean) if self.prompts else mean]
        spread = NormalDist(mean, self.spread)
        return [_likely(spread.inv_cdf((i + 0.5) / _POPULATION)) for i in range(_POPULATION)]


@functools.cache
def expected_steps(acceptance: float, window: int, tokens: int) -> float:
    """Steps of an answer of ``tokens`` after the first, by the law of total expectation."""
    reached = [acceptance**accepted for accepted in range(window)]
    chances = [(1 - acceptance) * each for each in reached[:-1]] + reached[-1:]
    steps = [0.0] * (tokens + 1)
    for remaining in range(1, tokens + 1):
        steps[remaining] = 1 + sum(
            chance * steps[max(0, remaining - yielded)]
            for yielded, chance in enumerate(chances, start=1)
        )
    return steps[tokens]


def _likely(acceptance: float) -> float:
    return min(0.99, max(0.02, acceptance))


_ENDPOINT: Final = {"endpoint": "http://127.0.0.1:8000/v1"}
_RECORD: Final = samples.record(run="sweep", sent=_STARTED)
