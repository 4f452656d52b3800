"""Golden endpoints for the variants of an experiment, each a process."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from experiment import Experiment
from experiment.variants import variants
from rehearsal.manifest import IndexedJob
from rehearsal.performance import (
    COST,
    OF_STRUCTURE,
    by_text,
    decoding,
    description,
    draft_of,
)
from rehearsal.processes import lasting_port
from rehearsal.setting import Caps, Endpoints, Server, Servers, Setting
from spectap.config import Structure

SPEED: Final = 10
"""How much faster the golden endpoints are than the article's baseline."""


LAUNCH_ERROR: Final = 0.02
"""How far the launches of one endpoint are off each other, where a run has several."""


def _servers(setting: Setting, job: IndexedJob | None) -> Servers:
    environment, logs = setting.serving_environment, setting.layout.logs
    first = f"golden, {SPEED} times the article's speed, by this arithmetic"
    several = setting.experiment.benchmark.launches > 1
    launched = [f"a launch's times are {LAUNCH_ERROR:.0%} off (standard deviation)"] * several
    return Servers(
        golden_servers(setting.experiment, SPEED, environment, logs),
        (first, *description(setting.experiment), *launched),
    )


GOLDEN: Final = Endpoints(
    name=f"golden endpoints at {SPEED} times the article's speed",
    kind="golden endpoints",
    servers=_servers,
    # The article's load takes most of an hour at the article's speed.
    caps=Caps(rounds=4, output_tokens=120, rate_seconds=2),
    start_seconds=10,
)
"""They answer by a schedule. As processes, they do not wait for each other."""


def golden_servers(
    experiment: Experiment, speed: float, environment: Mapping[str, str], logs: Path
) -> dict[str, Server]:
    """One for each variant, by its name. ``logs`` takes what they read. Raises RehearsalError."""
    accepted = by_text(experiment)
    logs.mkdir(parents=True, exist_ok=True)
    servers = {}
    for variant in variants(experiment):
        draft, schedule, port = draft_of(variant), decoding(variant, speed), lasting_port()
        acceptance = logs / f"acceptance-{variant.name}.json"
        rates = {text: draft.acceptance(rate) for text, rate in accepted.items()}
        acceptance.write_text(json.dumps(rates), encoding="utf-8")
        options = {
            "port": port,
            "engine": variant.runtime.engine,
            "model": experiment.models.target.id,
            "drafts": schedule.drafts,
            "batch": variant.batch,
            "max-model-len": experiment.serving.length,
            "speed": speed,
            "token-cost": COST.slope,
            "token-seconds": schedule.token_seconds,
            "draft-cost": schedule.draft_cost,
            "launch-error": LAUNCH_ERROR if experiment.benchmark.launches > 1 else 0.0,
            "acceptance": acceptance,
            "otherwise": draft.acceptance(OF_STRUCTURE[Structure.OPEN_ENDED]),
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        counted = ["--counts-drafts"] if variant.runtime.counts_drafts else []
        command = (sys.executable, "-m", "spectap.golden", *arguments, *counted)
        servers[variant.name] = Server(f"http://127.0.0.1:{port}/v1", command, environment)
    return servers
