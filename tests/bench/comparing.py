"""How often ``compare`` is wrong about two runs, and what it finds.

``python -m tests.bench.comparing [--pairs 400]``

Runs are generated with a known acceptance and summed up as any run. Pairs of the same thing show
how often a difference is claimed that is none: in at most 5 % of pairs. Pairs whose acceptance
differs show what is found. Ends with status 1, and names the bar, when one is missed: it is, where
a method that keeps its 5 % would have as many false alarms only once in a thousand simulations.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from spectap.analysis.changes import Changes, compare
from spectap.analysis.matching import Run
from spectap.analysis.stopping import last_rounds
from spectap.analysis.summarise import summarise
from spectap.config import Config
from spectap.record import Record
from tests.bench.trials import likely
from tests.spectap import generated_runs

SELDOM: Final = 0.001
WRONG: Final = 0.05
GATE: Final = 0.95
RANGE: Final = {"at_least": 4, "at_most": 15, "half_width": 0.05}


@dataclass(frozen=True)
class Pair:
    """Two runs, and what the new one differs in."""

    name: str
    lower: float = 0.0
    """By how much a draft is accepted less often: 0.1 is 10 points."""
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


def compared(pair: Pair, number: int) -> Changes:
    """What is found of one pair of runs; the same number, the same pair."""
    old = run(pair, 2 * number)
    lower = {name: share - pair.lower for name, share in generated_runs.ACCEPTANCE.items()}
    new = run(pair, 2 * number + 1, lower, pair.slower)
    return compare(old, new, GATE)


def run(
    pair: Pair,
    seed: int,
    acceptance: dict[str, float] = generated_runs.ACCEPTANCE,
    slower: float = 1.0,
) -> Run:
    """A generated run."""
    rounds: Any = RANGE if pair.rounds is None else pair.rounds
    told = generated_runs.config(rounds=rounds, output_tokens=pair.tokens)
    config = Config.model_validate(told)
    lines = generated_runs.ledger(told, seed, acceptance)
    records = [_record(generated_runs.slowed(line, slower)) for line in lines]
    last = last_rounds(config, records)
    load = config.load.points[0].name
    kept = tuple(record for record in records if record.round <= last[record.case, load])
    return Run(f"run-{seed}", config, kept, summarise(config, kept))


def _record(line: generated_runs.Line) -> Record:
    chunks = tuple((offset, tokens) for offset, tokens in line["chunks"])
    return Record(**{**line, "chunks": chunks})


def _found(changes: Changes) -> tuple[Sequence[bool], bool]:
    """Of each figure that is judged, whether a difference is claimed; whether the gate fails."""
    return [change.real for _, _, change in changes.judged], changes.failed


def main() -> int:
    """Prints the table; returns 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=400, help="of each kind")
    count = parser.parse_args().pairs
    missed = []
    print(f"{'':<24}{'any claimed':>12}{'of figures':>12}{f'gate {GATE}':>12}")
    with multiprocessing.Pool() as pool:
        for pair in PAIRS:
            found = pool.map(functools.partial(_judged, pair), range(count), chunksize=10)
            claimed = sum(any(real) for real, _ in found)
            failed = sum(failed for _, failed in found)
            figures = [one for real, _ in found for one in real]
            shares = claimed / count, sum(figures) / len(figures), failed / count
            print(f"{pair.name:<24}" + "".join(f"{share:>12.1%}" for share in shares), flush=True)
            allowed = likely(1 - SELDOM, count, WRONG)
            if pair.lower == 0 and max(claimed, failed) > allowed:
                missed.append(f"{pair.name}: {claimed} and {failed} false alarms, {allowed} may be")
    print("".join(f"\nmissed: {line}" for line in missed) or "\nevery bar is met")
    return 1 if missed else 0


def _judged(pair: Pair, number: int) -> tuple[Sequence[bool], bool]:
    return _found(compared(pair, number))


if __name__ == "__main__":
    sys.exit(main())
