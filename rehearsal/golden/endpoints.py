"""Golden endpoints, each a process: one for each service of the experiment."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmark.config import Structure
from experiment import Experiment
from experiment.variants import Variant, services
from rehearsal.console import Console
from rehearsal.endpoints import RunningEndpoints
from rehearsal.golden.schedule import Decoding
from rehearsal.layout import Layout
from rehearsal.process.processes import await_line, running

START_SECONDS: Final = 30.0

SPEED: Final = 10
"""How much faster the golden endpoints are than the article's baseline."""

# The probability that the target accepts one draft. With the article's models and window these make
# the article's speed-ups: 3 where a continuation is predictable, 1 where it is not.
ACCEPTANCE: Final[Mapping[Structure, float]] = {
    Structure.STRUCTURED: 0.97,
    Structure.OPEN_ENDED: 0.52,
}
# A prompt is filled with its line and then cut. It certainly holds the line's beginning.
_CERTAIN_CHARACTERS: Final = 40


class GoldenEndpoints:
    """Endpoints that answer by a schedule. As processes, they do not wait for each other."""

    name: Final = f"golden endpoints at {SPEED} times the article's speed"
    stages: Final = 1
    # The article's load takes most of an hour at the article's speed.
    load: Final[Mapping[str, int]] = {"rounds": 4, "mean_output_tokens": 120}

    @contextlib.contextmanager
    def serving(
        self,
        experiment: Experiment,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> Iterator[RunningEndpoints]:
        """Starts them, which is one stage, and ends them. Raises ProcessError."""
        with contextlib.ExitStack() as stack:
            with console.stage("start the golden endpoints") as stage:
                urls = stack.enter_context(
                    golden_endpoints(experiment, SPEED, environment, layout.logs)
                )
                stage.found = ", ".join(f"{name} {url}" for name, url in urls.items())
            yield RunningEndpoints(urls, tuple(_said(experiment)))


@contextlib.contextmanager
def golden_endpoints(
    experiment: Experiment, speed: float, environment: Mapping[str, str], logs: Path
) -> Iterator[dict[str, str]]:
    """Base URLs by the name of the variant. Raises ProcessError."""
    log = {variant.name: logs / f"endpoint-{variant.name}.log" for variant in services(experiment)}
    with contextlib.ExitStack() as stack:
        processes = {
            variant.name: stack.enter_context(
                running(_command(variant, speed), environment, log[variant.name])
            )
            for variant in services(experiment)
        }
        yield {
            name: await_line(process, log[name], r"http://\S+/v1", START_SECONDS)
            for name, process in processes.items()
        }


def scheduled_time(variant: Variant, structure: Structure) -> float:
    """Expected time per output token in seconds, at the article's speed."""
    decoding = _decoding(variant, speed=1)
    return decoding.time_per_token(ACCEPTANCE[structure])


def acceptance(experiment: Experiment) -> dict[str, float]:
    """Acceptance by the text that a golden endpoint recognises a prompt by.

    The first text that a prompt contains counts. Prompts are filled with the line of their test
    case, so the text is that line or its beginning. The longest texts come first, because one may
    begin like another.
    """
    known = {
        ("\n" + case.line.rstrip("\n") + "\n")[:_CERTAIN_CHARACTERS]: ACCEPTANCE[case.structure]
        for case in experiment.benchmark.test_cases
        if case.line is not None
    }
    return {text: known[text] for text in sorted(known, key=len, reverse=True)}


def _said(experiment: Experiment) -> Iterator[str]:
    yield f"golden, {SPEED} times the article's speed, by these schedules"
    served = {variant.name: variant for variant in services(experiment)}
    for variant in served.values():
        if variant.baseline is not None:
            speed_ups = ", ".join(
                f"{scheduled_time(served[variant.baseline], s) / scheduled_time(variant, s):.1f}x "
                f"on {s} text"
                for s in Structure
            )
            yield f"{variant.name} over {variant.baseline}: {speed_ups}"


def _decoding(variant: Variant, speed: float) -> Decoding:
    return Decoding(window=variant.window or 1, speed=speed)


def _command(variant: Variant, speed: float) -> list[str]:
    options = {
        "engine": variant.runtime.engine,
        "model": variant.experiment.models.target.id,
        "window": _decoding(variant, speed).window,
        "speed": speed,
        "acceptance": json.dumps(acceptance(variant.experiment)),
        "otherwise": ACCEPTANCE[Structure.OPEN_ENDED],
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "rehearsal.golden", *arguments]
