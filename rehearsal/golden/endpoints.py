"""Golden endpoints, each a process: one for each service of the experiment."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmark.config import Structure
from experiment import Experiment
from experiment.variants import Variant, services, variants
from rehearsal.console import Console
from rehearsal.endpoints import RunningEndpoints, Server, Servers
from rehearsal.golden import cost
from rehearsal.golden.acceptances import OF_STRUCTURE, by_text, of_class
from rehearsal.golden.cost import Cost, Linear
from rehearsal.golden.schedule import TOKEN_SECONDS, Decoding, crossover, speed_up
from rehearsal.layout import Layout
from rehearsal.pod.caps import Caps
from rehearsal.pod.manifest import IndexedJob
from rehearsal.process.ports import lasting_port
from rehearsal.process.processes import await_line, running
from rehearsal.prompts import prompts_of

START_SECONDS: Final = 30.0

SPEED: Final = 10
"""How much faster the golden endpoints are than the article's baseline."""

COST: Final = Linear(0.04)
DRAFT_COST: Final = 0.037
"""With the slope, the article's window and its concurrency, the article's speed-ups."""
_CONCURRENCY: Final = 4
"""The article's, at which its baseline takes what it takes for a token."""


@dataclass(frozen=True)
class GoldenEndpoints:
    """Endpoints that answer by a schedule. As processes, they do not wait for each other."""

    cost: Cost = COST

    name = f"golden endpoints at {SPEED} times the article's speed"
    stages = 1
    # The article's load takes most of an hour at the article's speed.
    caps = Caps(rounds=4, output_tokens=120, rate_seconds=2)
    drafts_whole_window = False  # they draft as NxDI does
    at_once = None
    start_seconds = 10

    @contextlib.contextmanager
    def serving(
        self,
        experiment: Experiment,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> Iterator[RunningEndpoints]:
        """Starts them, which is one stage, and ends them. Raises RehearsalError or ProcessError."""
        with contextlib.ExitStack() as stack:
            with console.stage("start the golden endpoints") as stage:
                urls = stack.enter_context(
                    golden_endpoints(experiment, SPEED, environment, layout.logs, self.cost)
                )
                stage.found = ", ".join(f"{name} {url}" for name, url in urls.items())
            yield RunningEndpoints(urls, tuple(_said(experiment, self.cost)))

    def servers(
        self,
        experiment: Experiment,
        job: IndexedJob,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> Servers:
        """Those of a sweep. Raises RehearsalError."""
        acceptance = _acceptance(experiment, layout.logs)
        found = {}
        for variant in variants(experiment):
            port = lasting_port()
            command = (*_command(variant, SPEED, self.cost, acceptance), f"--port={port}")
            found[variant.name] = Server(f"http://127.0.0.1:{port}/v1", command, environment)
        return Servers(found, tuple(_said(experiment, self.cost)))


@contextlib.contextmanager
def golden_endpoints(
    experiment: Experiment,
    speed: float,
    environment: Mapping[str, str],
    logs: Path,
    cost: Cost = COST,
) -> Iterator[dict[str, str]]:
    """Base URLs by the name of the variant. Raises RehearsalError or ProcessError."""
    acceptance = _acceptance(experiment, logs)
    log = {variant.name: logs / f"endpoint-{variant.name}.log" for variant in services(experiment)}
    with contextlib.ExitStack() as stack:
        processes = {
            variant.name: stack.enter_context(
                running(_command(variant, speed, cost, acceptance), environment, log[variant.name])
            )
            for variant in services(experiment)
        }
        yield {
            name: await_line(process, log[name], r"http://\S+/v1", START_SECONDS)
            for name, process in processes.items()
        }


def _acceptance(experiment: Experiment, logs: Path) -> Path:
    """Writes the file that golden endpoints know acceptances from."""
    logs.mkdir(parents=True, exist_ok=True)
    acceptance = logs / "acceptance.json"
    acceptance.write_text(json.dumps(by_text(experiment)), encoding="utf-8")
    return acceptance


def decoding(variant: Variant, cost: Cost = COST, speed: float = 1) -> Decoding:
    """How the variant's endpoint decodes."""
    return Decoding(
        window=variant.window or 1,
        draft_cost=DRAFT_COST,
        token_seconds=TOKEN_SECONDS / cost.of(_CONCURRENCY),
        speed=speed,
        cost=cost,
    )


def scheduled_time(variant: Variant, structure: Structure, in_flight: float) -> float:
    """Expected time per output token in seconds, at the article's speed."""
    return decoding(variant).time_per_token(OF_STRUCTURE[structure], in_flight)


def _said(experiment: Experiment, cost: Cost) -> Iterator[str]:
    yield f"golden, {SPEED} times the article's speed, by these schedules"
    yield f"a pass {cost.words}"
    served = {variant.name: variant for variant in services(experiment)}
    rates = dict(_rates(experiment))
    for variant in served.values():
        if variant.baseline is None:
            continue
        pair = decoding(served[variant.baseline], cost), decoding(variant, cost)
        first = min(experiment.benchmark.points[0].concurrency or 1, variant.batch)
        gains = ", ".join(
            f"{speed_up(*pair, rate, first):.1f}x on {text}" + _until(*pair, rate, variant.batch)
            for text, rate in rates.items()
        )
        yield f"{variant.name} over {variant.baseline} with {first} in flight: {gains}"


def _until(baseline: Decoding, speculative: Decoding, rate: float, batch: int) -> str:
    at = crossover(baseline, speculative, rate, batch)
    return "" if at is None else f" (1x with {at:.1f})"


def _rates(experiment: Experiment) -> Iterator[tuple[str, float]]:
    """Acceptance by the kind of text."""
    for case in experiment.benchmark.test_cases:
        if case.is_line and case.structure is not None:
            yield f"{case.structure} text", OF_STRUCTURE[case.structure]
        elif not case.is_line:
            for name in dict.fromkeys(p.prompt_class for p in prompts_of(experiment, case)):
                yield name or case.name, of_class(name)


def _command(variant: Variant, speed: float, model: Cost, acceptance: Path) -> list[str]:
    own = decoding(variant, model, speed)
    options = {
        "engine": variant.runtime.engine,
        "model": variant.experiment.models.target.id,
        "window": own.window,
        "batch": variant.batch,
        "max-model-len": variant.experiment.serving.length,
        "speed": own.speed,
        "cost": cost.argument(own.cost),
        "token-seconds": own.token_seconds,
        "draft-cost": own.draft_cost,
        "acceptance": acceptance,
        "otherwise": OF_STRUCTURE[Structure.OPEN_ENDED],
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "rehearsal.golden", *arguments]
