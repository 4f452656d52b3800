"""What stands in for the two vLLM services: golden endpoints here, real ones in ``vllm``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from benchmark.names import BASE, SPECULATIVE
from experiment import Experiment
from experiment.schema import Structure
from rehearsal.console import Steps
from rehearsal.golden.schedule import Decoding
from rehearsal.layout import Layout
from rehearsal.process.processes import await_line, running

START_SECONDS: Final = 30.0

SPEED: Final = 10
"""How much faster the golden endpoints are than the article's baseline."""

# How sure the target is to accept a draft: with the article's models and window it makes the
# article's speed-ups, 3 where a continuation is predictable and 1 where it is not.
ACCEPTANCE: Final[Mapping[Structure, float]] = {
    Structure.STRUCTURED: 0.97,
    Structure.OPEN_ENDED: 0.52,
}
# Of a line that fills a prompt, only the beginning is certain to be in there whole.
_CERTAIN_CHARACTERS: Final = 40


@dataclass(frozen=True)
class Serving:
    """Two endpoints that serve: variant -> base URL, and what is said of them at the end."""

    urls: Mapping[str, str]
    said: tuple[str, ...]


class Endpoints(Protocol):
    """A kind of endpoints. ``steps``: how many its start takes; ``load``: at most so much."""

    @property
    def name(self) -> str: ...  # noqa: D102 (see the class)

    @property
    def steps(self) -> int: ...  # noqa: D102 (see the class)

    @property
    def load(self) -> Mapping[str, int]: ...  # noqa: D102 (see the class)

    def serving(
        self,
        experiment: Experiment,
        layout: Layout,
        environment: Mapping[str, str],
        steps: Steps,
    ) -> AbstractContextManager[Serving]:
        """Starts both, shows it as ``steps``, and ends them. Raises RehearsalError."""


class GoldenEndpoints:
    """Each a process, so that neither waits for the other; what they send when is scheduled."""

    name: Final = f"golden endpoints at {SPEED} times the article's speed"
    steps: Final = 1
    # The article's load takes most of an hour at the article's speed.
    load: Final[Mapping[str, int]] = {"rounds": 2, "mean_output_tokens": 120}

    @contextlib.contextmanager
    def serving(
        self,
        experiment: Experiment,
        layout: Layout,
        environment: Mapping[str, str],
        steps: Steps,
    ) -> Iterator[Serving]:
        """Starts both, shows it as one of ``steps``, and ends them. Raises RehearsalError."""
        speedups = ", ".join(
            f"{scheduled_speedup(experiment, structure):.1f}x {structure}"
            for structure in Structure
        )
        said = f"golden, {SPEED} times the article's speed, scheduled to be {speedups}"
        with contextlib.ExitStack() as stack:
            with steps.step("start the golden endpoints") as step:
                urls = stack.enter_context(
                    golden_endpoints(experiment, SPEED, environment, layout.logs)
                )
                step.found = ", ".join(f"{name} {url}" for name, url in urls.items())
            yield Serving(urls, (said,))


@contextlib.contextmanager
def golden_endpoints(
    experiment: Experiment, speed: float, environment: Mapping[str, str], logs: Path
) -> Iterator[dict[str, str]]:
    """Variant -> base URL. Raises RehearsalError."""
    with contextlib.ExitStack() as stack:
        processes = {
            variant: stack.enter_context(
                running(
                    _command(experiment, decoding),
                    environment,
                    logs / f"endpoint-{variant}.log",
                )
            )
            for variant, decoding in _decoding(experiment, speed).items()
        }
        yield {
            variant: await_line(
                process, logs / f"endpoint-{variant}.log", r"http://\S+/v1", START_SECONDS
            )
            for variant, process in processes.items()
        }


def scheduled_speedup(experiment: Experiment, structure: Structure) -> float:
    """What the benchmark should find: time per output token, Base over SD."""
    times = [
        decoding.step_seconds / decoding.tokens_per_step(ACCEPTANCE[structure])
        for decoding in _decoding(experiment, 1).values()
    ]
    return times[0] / times[1]


def acceptance(experiment: Experiment) -> dict[str, float]:
    """What the golden endpoint knows a prompt by -> acceptance; the first that is in it counts.

    Prompts are filled with lines of their test case, so they are known by a whole line, or its
    beginning; the longest first, for one may begin like another.
    """
    known = {
        ("\n" + case.line.rstrip("\n") + "\n")[:_CERTAIN_CHARACTERS]: ACCEPTANCE[case.structure]
        for case in experiment.benchmark.test_cases
        if case.line is not None
    }
    return {text: known[text] for text in sorted(known, key=len, reverse=True)}


def _decoding(experiment: Experiment, speed: float) -> dict[str, Decoding]:
    window = experiment.speculation[0].num_speculative_tokens
    return {
        BASE: Decoding(window=1, speed=speed),
        SPECULATIVE: Decoding(window=window, speed=speed),
    }


def _command(experiment: Experiment, decoding: Decoding) -> list[str]:
    options = {
        "engine": experiment.serving_runtime.engine,
        "model": experiment.models.target.id,
        "window": decoding.window,
        "speed": decoding.speed,
        "acceptance": json.dumps(acceptance(experiment)),
        "otherwise": ACCEPTANCE[Structure.OPEN_ENDED],
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "rehearsal.golden.server", *arguments]
