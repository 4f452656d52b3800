"""Two golden endpoints in place of vLLM, each a process, so that neither waits for the other."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmark.names import BASE, SPECULATIVE
from experiment import Experiment
from experiment.schema import Structure
from rehearsal.processes import await_line, running
from rehearsal.schedule import Decoding

START_SECONDS: Final = 30.0

# How sure the target is to accept a draft: with the article's models and window it makes the
# article's speed-ups, 3 where a continuation is predictable and 1 where it is not.
ACCEPTANCE: Final[Mapping[Structure, float]] = {
    Structure.STRUCTURED: 0.97,
    Structure.OPEN_ENDED: 0.52,
}
# Of a line that fills a prompt, only the beginning is certain to be in there whole.
_CERTAIN_CHARACTERS: Final = 40


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
    window = experiment.speculation.num_speculative_tokens
    return {
        BASE: Decoding(window=1, speed=speed),
        SPECULATIVE: Decoding(window=window, speed=speed),
    }


def _command(experiment: Experiment, decoding: Decoding) -> list[str]:
    options = {
        "model": experiment.models.target.id,
        "window": decoding.window,
        "speed": decoding.speed,
        "acceptance": json.dumps(acceptance(experiment)),
        "otherwise": ACCEPTANCE[Structure.OPEN_ENDED],
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "rehearsal.golden", *arguments]
