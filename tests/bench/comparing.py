"""How often ``compare`` is wrong about two runs, and what it finds.

``python -m tests.bench.comparing [--count 400]``

Runs are generated with a known acceptance and summed up as any run. Pairs of the same thing show
how often a difference is claimed that is none: in at most 5 % of pairs. Pairs whose acceptance
differs show what is found. Ends with status 1, and names the bar, when one is missed: it is, where
a method that keeps its 5 % would have as many false alarms only once in a thousand simulations.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spectap.analysis.changes import Run, compare
from spectap.analysis.stopping import last_rounds
from spectap.analysis.summarise import summarise
from spectap.config import Config
from tests.bench import harness
from tests.spectap import generated_runs
from tests.spectap.generated_runs import record

GATE: Final = 0.95
RANGE: Final = {"at_least": 4, "at_most": 15, "half_width": 0.05}


@dataclass(frozen=True)
class Pair:
    """Two runs, and what the new one differs in."""

    name: str
    lower: float = 0.0
    """How much less often a draft is accepted: 0.1 is 10 points."""
    slower: float = 1.0
    """How many times all of it takes longer, as on another node."""
    rounds: int | None = 6
    """None: as many as it takes, in ``RANGE``."""
    tokens: int = 100
    """Of an answer."""


PAIRS: Final = (
    Pair("the same"),
    Pair("the same, 3 rounds", rounds=3),
    Pair("the same, 15 rounds", rounds=15),
    Pair("the same, a range", rounds=None),
    Pair("the same, 10 % slower", slower=1.1),
    Pair("2 points less", lower=0.02),
    Pair("5 points less", lower=0.05),
    Pair("10 points less", lower=0.1),
    Pair("2 points, 600 tokens", lower=0.02, tokens=600),
    Pair("5 points, 600 tokens", lower=0.05, tokens=600),
)


def run(pair: Pair, seed: int, *, lower: float = 0.0, slower: float = 1.0) -> Run:
    """A generated run; the same seed, the same run."""
    rounds: Any = RANGE if pair.rounds is None else pair.rounds
    content = generated_runs.config(rounds=rounds, output_tokens=pair.tokens)
    config = Config.model_validate(content)
    acceptance = {name: share - lower for name, share in generated_runs.ACCEPTANCE.items()}
    lines = generated_runs.ledger(content, seed, acceptance)
    records = [record(generated_runs.slowed(line, slower)) for line in lines]
    last = last_rounds(config, records)
    load = config.load.points[0].name
    needed = tuple(r for r in records if r.round <= last[r.case, load])
    return Run(f"run-{seed}", config, needed, summarise(config, needed))


def claimed(task: tuple[Pair, int]) -> tuple[Sequence[bool], bool]:
    """Whether each judged figure is claimed to differ; whether the gate fails."""
    pair, number = task
    new = run(pair, 2 * number + 1, lower=pair.lower, slower=pair.slower)
    changes = compare(run(pair, 2 * number), new, GATE)
    return [change.real for _, _, change in changes.judged], changes.failed


def main() -> int:
    """Prints the table; returns 1 where a bar is missed."""
    return harness.status(_missed(harness.count(__doc__, 400)))


def _missed(count: int) -> Iterator[str]:
    print(f"{'':<24}{'any claimed':>12}{'of figures':>12}{f'gate {GATE}':>12}")
    results = harness.run(claimed, [(pair, n) for pair in PAIRS for n in range(count)])
    for pair in PAIRS:
        of_pair = [next(results) for _ in range(count)]
        figures = [real for each, _ in of_pair for real in each]
        claims = sum(any(each) for each, _ in of_pair)
        failures = sum(failed for _, failed in of_pair)
        shares = claims / count, sum(figures) / len(figures), failures / count
        print(f"{pair.name:<24}" + "".join(f"{share:>12.1%}" for share in shares), flush=True)
        most = harness.most_wrong(count)
        if pair.lower == 0 and max(claims, failures) > most:
            yield f"{pair.name}: {claims} and {failures} false alarms, {most} may be"


if __name__ == "__main__":
    sys.exit(main())
