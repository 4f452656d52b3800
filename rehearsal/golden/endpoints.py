"""Golden endpoints, each a process: one for each service of the experiment."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deployment.console import Console
from experiment import Experiment
from experiment.variants import Variant, variants
from rehearsal.endpoints import RunningEndpoints, Server, Servers
from rehearsal.golden import cost
from rehearsal.golden.acceptances import OF_STRUCTURE, by_text
from rehearsal.golden.arithmetic import COST, decoding
from rehearsal.golden.cost import Cost
from rehearsal.golden.drafts import draft_of
from rehearsal.golden.said import said
from rehearsal.layout import Layout
from rehearsal.pod.caps import Caps
from rehearsal.pod.manifest import IndexedJob
from rehearsal.process.ports import lasting_port
from rehearsal.process.processes import await_line, running
from spectap.config import Structure

START_SECONDS: Final = 30.0

SPEED: Final = 10
"""How much faster the golden endpoints are than the article's baseline."""


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
    plays_jobs = True  # see rehearsal.offline
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
            yield RunningEndpoints(urls, tuple(self._said(experiment)))

    def servers(
        self,
        experiment: Experiment,
        job: IndexedJob,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> Servers:
        """Those of a sweep. Raises RehearsalError."""
        found = golden_servers(experiment, SPEED, environment, layout.logs, self.cost)
        return Servers(found, tuple(self._said(experiment)))

    def _said(self, experiment: Experiment) -> Iterator[str]:
        yield f"golden, {SPEED} times the article's speed, by this arithmetic"
        yield from said(experiment, self.cost)


@contextlib.contextmanager
def golden_endpoints(
    experiment: Experiment,
    speed: float,
    environment: Mapping[str, str],
    logs: Path,
    cost: Cost = COST,
) -> Iterator[dict[str, str]]:
    """Base URLs by the name of the variant. Raises RehearsalError or ProcessError."""
    accepted = by_text(experiment)
    log = {variant.name: logs / f"endpoint-{variant.name}.log" for variant in variants(experiment)}
    with contextlib.ExitStack() as stack:
        processes = {}
        for variant in variants(experiment):
            command = _command(variant, speed, cost, _acceptance(variant, accepted, logs))
            process = running(command, environment, log[variant.name])
            processes[variant.name] = stack.enter_context(process)
        yield {
            name: await_line(process, log[name], r"http://\S+/v1", START_SECONDS)
            for name, process in processes.items()
        }


def golden_servers(
    experiment: Experiment,
    speed: float,
    environment: Mapping[str, str],
    logs: Path,
    cost: Cost = COST,
) -> dict[str, Server]:
    """One for each variant, by its name; whoever wants one starts it. Raises RehearsalError."""
    accepted, found = by_text(experiment), {}
    for variant in variants(experiment):
        port = lasting_port()
        acceptance = _acceptance(variant, accepted, logs)
        command = (*_command(variant, speed, cost, acceptance), f"--port={port}")
        found[variant.name] = Server(f"http://127.0.0.1:{port}/v1", command, environment)
    return found


def _acceptance(variant: Variant, accepted: Mapping[str, float], logs: Path) -> Path:
    """Writes the file that the variant's endpoint knows acceptances from."""
    draft = draft_of(variant)
    logs.mkdir(parents=True, exist_ok=True)
    path = logs / f"acceptance-{variant.name}.json"
    own = {text: draft.acceptance(rate) for text, rate in accepted.items()}
    path.write_text(json.dumps(own), encoding="utf-8")
    return path


def _command(variant: Variant, speed: float, model: Cost, acceptance: Path) -> list[str]:
    own = decoding(variant, model, speed)
    options = {
        "engine": variant.runtime.engine,
        "model": variant.experiment.models.target.id,
        "window": own.window,
        "kept": own.kept,
        "batch": variant.batch,
        "max-model-len": variant.experiment.serving.length,
        "speed": own.speed,
        "cost": cost.argument(own.cost),
        "token-seconds": own.token_seconds,
        "draft-cost": own.draft_cost,
        "acceptance": acceptance,
        "otherwise": draft_of(variant).acceptance(OF_STRUCTURE[Structure.OPEN_ENDED]),
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    counted = ["--counts-drafts"] if variant.runtime.counts_drafts else []
    return [sys.executable, "-m", "rehearsal.golden", *arguments, *counted]
