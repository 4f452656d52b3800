"""Reads a run's folder: everything that table, figures and report are made of."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from spectap import config as configuration
from spectap import metrics
from spectap.analysis import crosscheck, grouping
from spectap.analysis.advice.advice import Advice
from spectap.analysis.crosscheck import Check
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Cell, Summary
from spectap.answer import read_checked, read_scores
from spectap.config import Config
from spectap.endpoint import counters, greedy
from spectap.endpoint.counters import COUNTERS
from spectap.endpoint.greedy import Divergence
from spectap.errors import JournalError, problems
from spectap.ledger import last_attempts, read_ledger, uninterrupted
from spectap.load_points import LoadPoint
from spectap.names import ANSWERS, CONFIG, LEDGER, LLMPERF, PROMPTS, WARM_UP, load_results
from spectap.prompt import UsedSet
from spectap.record import Record
from spectap.sweep import read_merged

_RESPONSES: Final = "**/*_individual_responses.json"
_SETS: Final = TypeAdapter(tuple[UsedSet, ...])
_Medians = Mapping[tuple[str, str, str], float]
"""By the names of a test case, a load point and a variant."""


@dataclass(frozen=True)
class Published:
    """llmperf's inter-token latency: medians over requests, in seconds."""

    recorded: _Medians
    """From llmperf's own files."""
    computed: _Medians
    """By llmperf's formula from the ledger."""

    @property
    def original(self) -> bool:
        """Whether the figures are llmperf's own."""
        return bool(self.recorded)

    @property
    def origin(self) -> str:
        """Where the figures come from, for a caption."""
        return "as published" if self.original else "by its formula on the same streams"

    def median(self, cell: Cell) -> float | None:
        """The figure of one cell."""
        load = cell.load.name if cell.load else ""
        return (self.recorded or self.computed).get((cell.test_case, load, cell.variant))


@dataclass(frozen=True)
class Results:
    """One run, or what it found at one load point."""

    folder: Path
    config: Config
    records: tuple[Record, ...]
    """Of the last attempt at each cell in each round; each has the name of its load point."""
    summary: Summary
    published: Published
    checks: tuple[Check, ...]
    divergences: tuple[Divergence, ...]
    ledger: tuple[Record, ...]
    """Every request of turns that came to their end: control loads and repeated attempts, too."""

    @cached_property
    def advice(self) -> Advice | None:
        """What to serve, for the mix of the run; None where no variant shows that it speculates."""
        return self.advise(None)

    def advise(self, mix: Mapping[str, float] | None) -> Advice | None:
        """The same for another mix of classes. Raises ConfigError where the mix cannot be."""
        if all(variant.baseline is None for variant in self.config.variants):
            return None
        # Imported here: only a run with something to advise on waits for it.
        from spectap.analysis.advice.advise import advise

        cells = [cell for case in self.summary.cases for cell in case.cells]
        advice = advise(self.config, self.ledger, cells=cells, mix=mix)
        return advice if advice.prospects else None

    @property
    def driver(self) -> str:
        """The program that made the load, as far as its files tell."""
        if not self.records:
            return "no driver yet"
        if not self.published.original:
            return "the built-in driver, not llmperf"
        # Only these tell what llmperf did not make: a file of its own may be missing.
        if any(record.prompt or record.due is not None for record in self.records):
            builtin = "the built-in driver where prompts have names or requests have times"
            return f"llmperf, and {builtin}"
        return "llmperf"

    def at(self, point: LoadPoint) -> Results:
        """What was found at one load point."""
        name = point.name
        summary = replace(
            self.summary,
            loads=(point,),
            cases=tuple(
                replace(case, cells=case.at(point), ladders=()) for case in self.summary.cases
            ),
            overall=tuple(mean for mean in self.summary.overall if mean.load == point),
        )
        recorded, computed = (
            {key: median for key, median in medians.items() if key[1] == name}
            for medians in (self.published.recorded, self.published.computed)
        )
        return replace(
            self,
            records=tuple(record for record in self.records if record.load == name),
            summary=summary,
            published=Published(recorded, computed),
            checks=tuple(check for check in self.checks if check.load == name),
        )


def read(folder: Path) -> Results:
    """Reads a run from ``config.json``, ``ledger.jsonl`` and, where they are, the other files.

    What the files say of test cases and variants that the configuration does not name is left out,
    and so is a turn that was interrupted.
    A missing ledger counts as empty and a torn last line as not written; the summary notes both.
    Raises ConfigError and JournalError.
    """
    config = configuration.read(folder / CONFIG)
    path = folder / LEDGER
    ledger = grouping.at_load_points(config.load, uninterrupted(read_ledger(path), folder))
    records = tuple(last_attempts(ledger, apart=config.apart))
    summary = summarise(
        config,
        ledger,
        sets=_sets(folder / PROMPTS),
        answers=read_checked(folder / ANSWERS),
        scores=read_scores(folder),
    )
    cells = {(cell.test_case, cell.variant) for case in summary.cases for cell in case.cells}
    first = config.load.points[0].name
    counts = (
        replace(count, load=count.load or first)
        for count in counters.read(folder / COUNTERS)
        if (count.case, count.variant) in cells
    )
    checks = crosscheck.check(records, counts)
    disagreements = (failure for check in checks for failure in check.failures)
    notes = (*_notes(folder, config), *summary.notes, *_file_notes(path), *disagreements)
    return Results(
        folder=folder,
        config=config,
        records=records,
        summary=replace(summary, notes=notes),
        published=_published(folder, config, records),
        checks=checks,
        divergences=tuple(
            divergence
            for divergence in greedy.read(folder)
            if (divergence.case, divergence.variant) in cells
        ),
        ledger=tuple(ledger),
    )


def _sets(path: Path) -> tuple[UsedSet, ...]:
    try:
        return _SETS.validate_json(path.read_bytes()) if path.exists() else ()
    except ValidationError as error:
        raise JournalError(f"{path}: {next(problems(error))}") from None


def _notes(folder: Path, config: Config) -> Iterator[str]:
    """What is missing in a run whose variants were measured apart."""
    parts = read_merged(folder)
    if parts is not None:
        yield from parts.sentences
    if config.apart and any(case.prompts is None for case in config.test_cases):
        yield (
            "Greedy answers were not compared, because the variants did not serve at the same time."
        )


def _file_notes(path: Path) -> Iterator[str]:
    if not path.exists():
        yield f"There is no {LEDGER} in this folder."
    elif path.read_bytes()[-1:] not in (b"", b"\n"):
        yield f"The last line of {LEDGER} is torn: the benchmark was stopped while writing it."


def _published(folder: Path, config: Config, records: Sequence[Record]) -> Published:
    attempts = {}
    by_formula = defaultdict(list)
    for record in records:
        variant = record.variant if config.apart else ""
        attempts[record.case, record.load, record.round, variant] = record.attempt
        latency = metrics.llmperf_inter_token_latency(record)
        if record.succeeded and record.round > WARM_UP and latency is not None:
            by_formula[record.case, record.load, record.variant].append(latency)
    recorded = {}
    for case, point, name in product(config.test_cases, config.load.points, config.names):
        # Earlier runs had one load point, whose name is in no path.
        loads = ("", point.name) if point is config.load.points[0] else (point.name,)
        values: list[float] = []
        for number, load in product(range(1, config.load.rounds.at_most + 1), loads):
            turn = case.name, point.name, number, name if config.apart else ""
            path = load_results(case.name, name, number, attempts.get(turn, 1), load)
            values += _inter_token_latencies(folder / path)
        if values:
            recorded[case.name, point.name, name] = float(np.median(values))
    computed = {key: float(np.median(values)) for key, values in by_formula.items()}
    return Published(recorded, computed)


def _inter_token_latencies(folder: Path) -> Iterator[float]:
    """llmperf's own latencies of requests, in seconds.

    The files of the built-in driver look the same; the summary beside them names the driver, in
    the metadata that llmperf passes through.
    """
    for path in sorted(folder.glob(_RESPONSES)):
        name = path.name.replace("_individual_responses.json", "_summary.json")
        # Without a summary, llmperf was killed before it wrote one.
        summary = _json(path.with_name(name)) or {}
        if summary.get("driver", LLMPERF) != LLMPERF:
            continue
        # A run that was killed left half a file; the ledger has its requests.
        for response in _json(path) or ():
            latency = response.get("inter_token_latency_s")
            if latency and not response.get("error_code"):
                yield float(latency)


def _json(path: Path) -> Any:
    """The content of a file; None where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
