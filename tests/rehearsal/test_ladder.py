"""The crossover that a run finds is the one that the golden endpoints' arithmetic gives.

Each model of cost has its endpoints, its run and its report. They are measured at the same time,
because most of that time is waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from rehearsal.golden import cost
from rehearsal.golden.cost import Constant, Cost, Linear, Roofline, Rounded
from rehearsal.golden.schedule import Decoding, crossover, speed_up
from rehearsal.process.processes import await_line, running
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Ladder, Summary
from spectap.config import Config, TestCase
from spectap.ledger import last_attempts, read_ledger
from spectap.load import builtin
from spectap.load.driver import Driver
from spectap.load_points import Load, LoadPoint
from spectap.names import BEYOND_HEADER, DUE_HEADER, LEDGER
from spectap.prompt import Prompt
from spectap.run.patience import Patience
from spectap.run.run import Run
from tests.spectap import samples

ACCEPTANCE: Final = 0.8
TOKENS: Final = 40
BATCH: Final = 8
CONCURRENCIES: Final = (1, 2, 4, 8)
MODELS: Final[Mapping[str, Cost]] = {
    "linear": Linear(0.18),
    "roofline": Roofline(11.8),
    "rounded": Rounded(5.5),
    "constant": Constant(),
}
PATIENCE: Final = Patience(start=20, recovery=5, stall=5, grace=20, poll=0.05, counters=0.02)


class InProcess(Driver):
    """Makes the load of the built-in driver's loops without a process for each turn."""

    async def run(
        self,
        *,
        model: str,
        case: TestCase,
        prompts: Sequence[Prompt],
        shape: Load,
        point: LoadPoint,
        seed: str,
        endpoint: str,
        results: Path,
        answers: Path | None = None,
        grace_seconds: float = 0,
    ) -> None:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Go on."}],
            "stream": True,
        }
        # Answers of many lengths, as prompts get them, so that the last of a turn end apart.
        lengths = random.Random(seed)
        shortest, longest = shape.mean_output_tokens // 2, shape.mean_output_tokens * 3 // 2
        loop_ends = asyncio.get_running_loop().time() + shape.timeout_seconds
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def send(headers: dict[str, str]) -> bool:
                length = lengths.randint(shortest, longest)
                url = f"{endpoint}/chat/completions"
                asked = body | {"max_tokens": length}
                async with session.post(url, json=asked, headers=headers) as response:
                    await response.read()
                return True

            if point.rate is None:
                assert point.concurrency is not None
                await builtin.closed(
                    itertools.count(),
                    lambda _, counts: send({} if counts else {BEYOND_HEADER: "1"}),
                    bool,
                    count=point.requests,
                    concurrency=point.concurrency,
                    deadline=loop_ends,
                )
            else:
                await builtin.opened(
                    range(point.requests),
                    lambda _, due: send({DUE_HEADER: f"{due:.6f}"}),
                    offsets=builtin.arrivals(point.rate, seed, point.requests),
                    deadline=loop_ends,
                )


@dataclass(frozen=True)
class Measured:
    """What a run on the endpoints of one model of cost found."""

    model: Cost
    summary: Summary

    @property
    def ladder(self) -> Ladder:
        (case,) = self.summary.cases
        (ladder,) = case.ladders  # a single rate makes none
        return ladder

    @property
    def pair(self) -> tuple[Decoding, Decoding]:
        return decoding(self.model, 1), decoding(self.model, 7)

    @property
    def crossover(self) -> float | None:
        """By the arithmetic."""
        return crossover(*self.pair, ACCEPTANCE, CONCURRENCIES[-1])


def decoding(model: Cost, window: int) -> Decoding:
    return Decoding(window, draft_cost=0.105, prefill_seconds=0.05, speed=10, cost=model)


def command(own: Decoding) -> list[str]:
    options = {
        "window": own.window,
        "draft-cost": own.draft_cost,
        "prefill-seconds": own.prefill_seconds,
        "speed": own.speed,
        "cost": cost.argument(own.cost),
        "otherwise": ACCEPTANCE,
        "batch": BATCH,
    }
    given = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "rehearsal.golden", *given]


def config(urls: Mapping[str, str]) -> Config:
    points = [LoadPoint(concurrency=count, requests=max(4, 2 * count)) for count in CONCURRENCIES]
    load = {
        "mean_input_tokens": 64,
        "mean_output_tokens": TOKENS,
        "points": [*points, LoadPoint(rate=10, requests=10)],
        "rounds": 4,
        "timeout_seconds": 60,
    }
    return samples.config(
        variants=samples.variants(**urls),
        load=load,
        test_cases=[{"name": "ladder", "line": None, "structure": "open-ended"}],
        region=None,
        bucket=None,
    )


@pytest.fixture(autouse=True, scope="module")
def imports_are_frozen() -> Iterator[None]:
    """Collecting garbage before each turn goes over what the run has made, as in the pod."""
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    folder = tmp_path_factory.mktemp("ladders")
    with serving(folder) as urls:
        configs = {name: config(own) for name, own in urls.items()}
        asyncio.run(measure(configs, folder))
    return {
        name: Measured(
            MODELS[name],
            summarise(told, last_attempts(read_ledger(folder / name / LEDGER))),
        )
        for name, told in configs.items()
    }


@contextlib.contextmanager
def serving(logs: Path) -> Iterator[dict[str, dict[str, str]]]:
    """Base URLs of the variants, by the name of the model."""
    with contextlib.ExitStack() as stack:
        started = {
            (name, variant): stack.enter_context(
                running(command(decoding(model, window)), os.environ, logs / f"{name}-{variant}")
            )
            for name, model in MODELS.items()
            for variant, window in (("Base", 1), ("SD", 7))
        }
        urls: dict[str, dict[str, str]] = {}
        for (name, variant), process in started.items():
            log = logs / f"{name}-{variant}"
            urls.setdefault(name, {})[variant] = await_line(process, log, r"http://\S+/v1", 30)
        yield urls


async def measure(configs: Mapping[str, Config], folder: Path) -> None:
    runs = [
        Run(told, folder / name, driver=InProcess(None, folder / "scratch"), patience=PATIENCE)
        for name, told in configs.items()
    ]
    assert await asyncio.gather(*(run.execute() for run in runs)) == [[]] * len(runs)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "constant"])
def test_the_crossover_of_the_arithmetic_is_in_the_interval_that_is_found(
    name: str, measured: dict[str, Measured]
) -> None:
    found, true = measured[name].ladder.speed, measured[name].crossover
    assert true is not None
    assert found.better_up_to is not None, measured[name].ladder.sentence
    assert found.worse_from is not None, measured[name].ladder.sentence
    assert found.better_up_to <= true <= found.worse_from
    assert found.point == pytest.approx(true, rel=0.25)


def test_a_model_whose_batch_is_free_has_none(measured: dict[str, Measured]) -> None:
    free = measured["constant"]
    assert free.crossover is None
    assert free.ladder.speed.worse_from is None
    assert free.ladder.speed.better_up_to == CONCURRENCIES[-1]
    assert free.ladder.speed.point is None
    assert "no crossover" in free.ladder.sentence


@pytest.mark.parametrize("name", MODELS)
def test_each_rung_has_the_speed_up_of_the_arithmetic(
    name: str, measured: dict[str, Measured]
) -> None:
    own = measured[name]
    (case,) = own.summary.cases
    for point in own.ladder.loads:
        comparison = case.cell("SD", point).comparison
        assert comparison is not None
        found = comparison.by_time_per_output_token
        assert found is not None
        assert point.concurrency is not None
        true = speed_up(*own.pair, ACCEPTANCE, point.concurrency)
        assert found.point == pytest.approx(true, rel=0.15), point.name


def test_a_single_rate_is_measured_and_makes_no_ladder(measured: dict[str, Measured]) -> None:
    for own in measured.values():
        (case,) = own.summary.cases
        (rate,) = (point for point in case.loads if point is not None and point.open)
        for cell in case.at(rate):
            assert cell.requests == 40
            assert cell.schedule is not None
