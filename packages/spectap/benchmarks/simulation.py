"""Runs of a world, and what is true of them.

A run has a baseline and a variant, which are measured at the same time, one turn after the other:
round by round, and in each round case by case. The load is a closed loop: each slot sends its next
request when its last has ended.
"""

import functools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks import verdicts
from benchmarks.harness import Statement
from benchmarks.verdicts import Truth
from spectap.analysis.grouping import CasePoint
from spectap.analysis.stopping import last_rounds
from spectap.analysis.summarise import summarise
from spectap.inputs.config import Config
from spectap.inputs.load_points import Rounds
from spectap.records.record import Record
from tests import samples

SIDES: Final = ("Base", "SD")
RANGE: Final = Rounds(at_least=4, at_most=30)

_TOKEN_SECONDS: Final = 0.045
_TTFT_SECONDS: Final = 0.21
_PAUSE_SECONDS: Final = 1.0  # between two turns
_STALL: Final = 5.0
_CUT: Final = 20.0  # a log-t factor has no mean unless its tails end somewhere
_TRUTH_REQUESTS: Final = 1_000_000
_TRUTH_RUN: Final = 2**32 - 1  # the number of no run that is looked at

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """What is random in a run, and what is true of it.

    A request's time per output token is the product of its side's mean and of random factors.
    Scatter is the standard deviation of a factor's natural logarithm.
    """

    name: str
    request: float = 0.05
    """Scatter of a request's own factor."""
    wave: float = 0.0
    """Scatter between waves: the requests in flight together share every step."""
    round: float = 0.0
    """Scatter between rounds that both sides share."""
    own_round: float = 0.0
    """Scatter between rounds of each side."""
    heavy: bool = False
    """Whether a request's own factor is log-t with 3 degrees of freedom instead of log-normal."""
    stalls: float = 0.0
    """Chance that a request takes five times as long."""
    drift: float = 0.0
    """How much slower both sides are at the end of the run than at its beginning (0.2: 20 %)."""
    one_sided_drift: float = 0.0
    """The same of the variant alone. What is true is then the mean over the run."""
    failures: float = 0.0
    """Chance that a request fails on its way, without tokens."""
    lengths: float = 0.0
    """Scatter of the number of tokens in an answer."""
    wider: float = 1.0
    """The variant's scatter of requests and waves, as a multiple of the baseline's."""
    rounds: int | Rounds = 6
    requests: int = 4
    concurrency: int = 4
    tokens: int = 600
    speedups: tuple[float, ...] = (1.0,) * 10
    """The true speed-up of each test case; with a ladder, of each at each of its loads."""
    ladder: tuple[int, ...] = ()
    """The concurrencies of a ladder, lowest first. They have names only: what a load does is in
    the speed-ups. Empty: there is one load."""
    prompts: int = 0
    """How many prompts with names each test case has, which its rounds send in turn; 0: none."""
    prompt: float = 0.0
    """Scatter of the speed-up between prompts."""
    limit: float = 0.0
    """The longest time per output token that keeps the objective, in seconds; 0: there is none."""

    @property
    def most_rounds(self) -> int:
        """How many rounds there are at most."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds.at_most

    @property
    def shape(self) -> str:
        """Rounds, requests in each, and how many of them are in flight."""
        return f", {self.most_rounds} x {self.requests} @ {self.concurrency}"

    @property
    def cases(self) -> int:
        """How many test cases there are."""
        return len(self.speedups) // len(self.ladder or (1,))

    @property
    def alike(self) -> bool:
        """Whether the speed-up is all that the two sides differ in."""
        return self.wider == 1 and self.one_sided_drift == 0 and self.prompt == 0

    def statements(self, number: int) -> Iterator[Statement]:
        """What the report on the run of that number states, and which 3x cases end at once."""
        config, measured = configuration(self), records(self, number)
        yield from report(config, measured, truths(self))
        if not isinstance(self.rounds, int):
            last = last_rounds(config, measured).values()
            for rounds, speedup in zip(last, self.speedups, strict=True):
                if speedup == 3:
                    yield Statement(verdicts.AT_ONCE, found=float(rounds == self.rounds.at_least))

    def generator(self, number: int) -> np.random.Generator:
        """The source of randomness of one of its runs, the same in each execution."""
        return np.random.default_rng([zlib.crc32(repr(self).encode()), number])


@dataclass(frozen=True)
class _Requests:
    """Arrays over run, round, case, side and request. Times are in seconds."""

    token_seconds: _Array
    tokens: NDArray[np.int64]
    failed: NDArray[np.bool_]
    sent: _Array
    end: _Array


def configuration(world: World) -> Config:
    """The configuration of a world's runs."""
    points = [
        {"concurrency": concurrency, "requests": world.requests}
        for concurrency in world.ladder or (world.concurrency,)
    ]
    return samples.config(
        experiment="simulated",
        load=samples.load(points=points, rounds=world.rounds, mean_output_tokens=world.tokens),
        test_cases=[
            {"name": _case(number), "prompts": {"set": "simulated"}}
            if world.prompts
            else {"name": _case(number), "structure": "structured"}
            for number in range(world.cases)
        ],
        objectives={"tpot_p90_ms": 1000 * world.limit} if world.limit else None,
    )


def records(world: World, number: int) -> list[Record]:
    """The requests of one of its runs, in the order of the turns; the same number, the same run."""
    simulated = _simulate(world, world.generator(number), runs=1)
    columns = [column.ravel().tolist() for column in vars(simulated).values()]
    names = places(world)
    return [
        _record(world, names, *request)
        for request in zip(np.ndindex(simulated.sent.shape), *columns, strict=True)
    ]


def report(
    config: Config, measured: Sequence[Record], truths: Mapping[CasePoint, Truth]
) -> Iterator[Statement]:
    """What the report on a run states.

    All rounds are simulated, and those that the rule would not have measured are dropped: what a
    round shows does not depend on whether others follow.
    """
    last = last_rounds(config, measured)
    kept = [record for record in measured if record.round <= last[record.case, record.load]]
    return verdicts.statements(summarise(config, kept), truths)


def slower(record: Record, level: float) -> Record:
    """The same request, with all times longer by this logarithm of a factor."""
    factor = math.exp(level)
    chunks = tuple((time * factor, tokens) for time, tokens in record.chunks)
    return replace(record, chunks=chunks, end=record.end * factor)


def places(world: World) -> list[CasePoint]:
    """The test case and the load of each speed-up, by their names."""
    points = configuration(world).load.points
    return [(_case(number), point.name) for number in range(world.cases) for point in points]


def truths(world: World) -> Mapping[CasePoint, Truth]:
    """What is true of each test case at each load, by their names.

    Sides that are alike are as fast and cost the same. All else is computed from a simulation of a
    million requests: the ends of a round and the time to first token, which no speed-up shortens,
    have no formula. Its ratios are rounded to a thousandth, which is more than its own error.
    """
    by_speedup = _by_speedup(world)
    return {
        case_point: by_speedup[speedup]
        for case_point, speedup in zip(places(world), world.speedups, strict=True)
    }


@functools.cache
def _by_speedup(world: World) -> Mapping[float, Truth]:
    size = world.most_rounds * len(world.speedups) * world.requests * len(SIDES)
    runs = math.ceil(_TRUTH_REQUESTS / size)
    simulated = _simulate(world, world.generator(_TRUTH_RUN), runs)
    served = np.where(simulated.failed, 0, simulated.tokens).sum(axis=-1)
    # Failed requests included: whether one fails does not depend on its time per token.
    request_seconds = _TTFT_SECONDS + simulated.token_seconds * (simulated.tokens - 1)
    requests = np.log(request_seconds / simulated.tokens)
    speeds = -(requests.mean(axis=-1) if world.prompts else np.median(requests, axis=-1))
    met = ~simulated.failed & (simulated.token_seconds <= world.limit)
    truths_of = {}
    for speedup in dict.fromkeys(world.speedups):
        of_speedup = np.array(world.speedups) == speedup
        of_requests = speeds[:, :, of_speedup].mean(axis=(0, 1, 2))
        equal = world.alike and speedup == 1
        # With every slot busy, which is how tokens a second are meant.
        seconds = simulated.end.sum(axis=-1)[:, :, of_speedup] / world.concurrency
        # The sums over everything but the side, which is the last axis.
        rates = served[:, :, of_speedup].sum(axis=(0, 1, 2)) / seconds.sum(axis=(0, 1, 2))
        truths_of[speedup] = Truth(
            speed=1.0 if equal else round(math.exp(of_requests[1] - of_requests[0]), 3),
            cost=1.0 if equal else round(float(rates[1] / rates[0]), 3),
            goodput=float(met[:, :, of_speedup, 1].mean()) if world.limit else math.nan,
        )
    return truths_of


def _simulate(world: World, generator: np.random.Generator, runs: int) -> _Requests:
    shape = (runs, world.most_rounds, len(world.speedups), len(SIDES), world.requests)
    means = _TOKEN_SECONDS / np.array([(1.0, speedup) for speedup in world.speedups])
    token_seconds = means[:, :, np.newaxis] * np.exp(_logs(world, generator, shape))
    token_seconds *= np.where(generator.random(shape) < world.stalls, _STALL, 1.0)
    lengths = world.tokens * np.exp(world.lengths * generator.standard_normal(shape))
    tokens = np.maximum(2, np.rint(lengths)).astype(int)
    failed = generator.random(shape) < world.failures
    end = _TTFT_SECONDS + token_seconds * (tokens - 1)
    end *= np.where(failed, generator.random(shape), 1.0)
    sent = _sent(end, world.concurrency)
    turns = (sent + end).max(axis=(-2, -1)) + _PAUSE_SECONDS
    begins = np.cumsum(turns.reshape(runs, -1), axis=1).reshape(turns.shape) - turns
    return _Requests(token_seconds, tokens, failed, sent + begins[..., np.newaxis, np.newaxis], end)


def _logs(world: World, generator: np.random.Generator, shape: tuple[int, ...]) -> _Array:
    """The logarithm of each request's factor."""
    runs, rounds, cases, sides, requests = shape
    draw = generator.standard_normal
    wave = np.arange(requests) // world.concurrency
    waves = int(wave[-1]) + 1
    scatter = np.clip(generator.standard_t(3, shape), -_CUT, _CUT) if world.heavy else draw(shape)
    wider = np.array([1.0, world.wider])[:, np.newaxis]
    logs = wider * (
        world.request * scatter + world.wave * draw((runs, rounds, cases, sides, waves))[..., wave]
    )
    if world.prompts:
        # Of the variant alone: how much of a prompt's text its drafts foresee.
        own_prompts = world.prompt * draw((runs, cases, world.prompts))
        sent_prompts = np.arange(rounds * requests).reshape(rounds, -1) % world.prompts
        logs[:, :, :, 1] -= np.moveaxis(own_prompts[..., sent_prompts], 2, 1)
    logs += world.round * draw((runs, rounds, cases, 1, 1))
    logs += world.own_round * draw((runs, rounds, cases, sides, 1))
    # Centred, so that the mean over the run is that of a world without it.
    position = ((np.arange(rounds) + 0.5) / rounds - 0.5)[:, np.newaxis, np.newaxis, np.newaxis]
    drifts = np.log1p([world.drift, world.drift]) + np.log1p([0.0, world.one_sided_drift])
    logs += position * drifts[:, np.newaxis]
    return logs


def _sent(end: _Array, concurrency: int) -> _Array:
    """When each request is sent, after the beginning of its turn."""
    sent = np.empty_like(end)
    for slot in range(min(concurrency, end.shape[-1])):
        durations = end[..., slot::concurrency]
        sent[..., slot::concurrency] = np.cumsum(durations, axis=-1) - durations
    return sent


def _record(
    world: World,
    names: Sequence[CasePoint],
    index: tuple[int, ...],
    token_seconds: float,
    tokens: int,
    failed: bool,
    sent: float,
    end: float,
) -> Record:
    _, round_, number, side, request = index
    case, load = names[number]
    sent_before = round_ * world.requests + request
    chunks = ((_TTFT_SECONDS, 1), (_TTFT_SECONDS + token_seconds * (tokens - 1), tokens - 1))
    return samples.record(
        run="simulated",
        variant=SIDES[side],
        case=case,
        round=round_ + 1,
        request=f"{round_ + 1}-{number}-{side}-{request}",
        sent=sent,
        error="the server reset the connection" if failed else None,
        output_tokens=None if failed else tokens,
        chunks=() if failed else chunks,
        end=end,
        load=load,
        prompt=f"prompt-{sent_before % world.prompts}" if world.prompts else "",
    )


def _case(number: int) -> str:
    return f"case-{number + 1}"
