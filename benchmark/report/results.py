"""Reads a run's folder: everything that table, figures and report are made of."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmark import config as configuration
from benchmark import metrics
from benchmark.analysis import crosscheck
from benchmark.analysis.crosscheck import Check
from benchmark.analysis.summarise import summarise
from benchmark.analysis.summary import Summary
from benchmark.config import Config
from benchmark.endpoint import counters, greedy
from benchmark.endpoint.counters import COUNTERS
from benchmark.endpoint.greedy import Divergence
from benchmark.ledger import last_attempts, read_ledger
from benchmark.names import CONFIG, LEDGER, LLMPERF, WARM_UP, load_results
from benchmark.record import Record

_RESPONSES: Final = "**/*_individual_responses.json"


@dataclass(frozen=True)
class Published:
    """llmperf's inter-token latency."""

    medians: dict[tuple[str, str], float]
    """Over requests, in seconds, by test case and variant."""
    original: bool
    """Whether they come from llmperf's own files; if not, from its formula and the ledger."""

    @property
    def origin(self) -> str:
        """Where the figures come from, for a caption."""
        return "as published" if self.original else "by its formula on the same streams"


@dataclass(frozen=True)
class Results:
    """One run."""

    folder: Path
    config: Config
    records: tuple[Record, ...]
    """Of the last attempt at each test case in each round."""
    summary: Summary
    published: Published
    checks: tuple[Check, ...]
    divergences: tuple[Divergence, ...]

    @property
    def driver(self) -> str:
        """The program that made the load, as far as its files tell."""
        if self.published.original:
            return "llmperf"
        built_in = "the built-in closed-loop driver, not llmperf"
        return built_in if self.records else "no driver yet"


def read(folder: Path) -> Results:
    """Reads a run from ``config.json``, ``ledger.jsonl`` and, where they are, the other files.

    What the files say of test cases and variants that the configuration does not name is left out.
    A missing ledger counts as empty and a torn last line as not written; the summary notes both.
    Raises ConfigError and JournalError.
    """
    config = configuration.read(folder / CONFIG)
    path = folder / LEDGER
    ledger = read_ledger(path)
    records = tuple(last_attempts(ledger))
    summary = summarise(config, ledger)
    cells = {(cell.test_case, cell.variant) for case in summary.cases for cell in case.cells}
    counts = counters.read(folder / COUNTERS)
    checks = crosscheck.check(records, (one for one in counts if (one.case, one.variant) in cells))
    disagreements = (failure for check in checks for failure in check.failures)
    notes = (*summary.notes, *_file_notes(path), *disagreements)
    return Results(
        folder=folder,
        config=config,
        records=records,
        summary=dataclasses.replace(summary, notes=notes),
        published=_published(folder, config, records),
        checks=checks,
        divergences=tuple(one for one in greedy.read(folder) if (one.case, one.variant) in cells),
    )


def _file_notes(path: Path) -> Iterator[str]:
    if not path.exists():
        yield f"There is no {LEDGER} in this folder."
    elif path.read_bytes()[-1:] not in (b"", b"\n"):
        yield f"The last line of {LEDGER} is torn: the benchmark was stopped while writing it."


def _published(folder: Path, config: Config, records: Sequence[Record]) -> Published:
    attempts = {(record.case, record.round): record.attempt for record in records}
    own, computed = {}, {}
    for case in config.test_cases:
        for variant in config.endpoints:
            folders = (
                folder
                / load_results(case.name, variant, number, attempts.get((case.name, number), 1))
                for number in range(1, config.load.rounds.at_most + 1)
            )
            if values := [v for one in folders for v in _inter_token_latencies(one)]:
                own[case.name, variant] = float(np.median(values))
            if values := list(_by_formula(records, case.name, variant)):
                computed[case.name, variant] = float(np.median(values))
    return Published(own or computed, original=bool(own))


def _by_formula(records: Sequence[Record], case: str, variant: str) -> Iterator[float]:
    for record in records:
        if (record.case, record.variant) == (case, variant) and record.round != WARM_UP:
            latency = metrics.llmperf_inter_token_latency(record)
            if latency is not None and record.succeeded:
                yield latency


def _made_by_llmperf(responses: Path) -> bool:
    """Whether llmperf wrote these responses, or the built-in driver, whose files look the same.

    The summary beside them says so, in the metadata that llmperf passes through.
    """
    name = responses.name.replace("_individual_responses.json", "_summary.json")
    try:
        summary = json.loads(responses.with_name(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True  # killed before the summary was written, or llmperf's own files without one
    return bool(summary.get("driver", LLMPERF) == LLMPERF)


def _inter_token_latencies(folder: Path) -> Iterator[float]:
    for path in sorted(folder.glob(_RESPONSES)):
        if not _made_by_llmperf(path):
            continue
        try:
            responses = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # a run that was killed left half a file; the ledger has its requests
        for response in responses:
            latency = response.get("inter_token_latency_s")
            if latency and not response.get("error_code"):
                yield float(latency)
