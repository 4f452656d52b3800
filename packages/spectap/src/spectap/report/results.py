"""Reads a run's folder: all that tables, figures and the report are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from spectap.analysis import crosscheck, grouping
from spectap.analysis.crosscheck import Check
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Summary
from spectap.endpoint import counters
from spectap.endpoint.counters import COUNTERS
from spectap.endpoint.greedy import DIVERGENCE, Divergence
from spectap.inputs import config as configuration
from spectap.inputs.config import Config
from spectap.names import ANSWERS, CONFIG, LEDGER, LLMPERF
from spectap.records import journal
from spectap.records.answer import CheckedAnswer
from spectap.records.ledger import last_attempts, read_ledger, uninterrupted
from spectap.records.record import Record
from spectap.report import caveats
from spectap.run import prompts
from spectap.run.sweep import read_merged

_RESPONSES: Final = "_individual_responses.json"


@dataclass(frozen=True)
class Results:
    """One run."""

    folder: Path
    config: Config
    records: tuple[Record, ...]
    """Records of the last attempt at each turn. Each names its load point."""
    summary: Summary
    notes: tuple[str, ...]
    """Caveats, a sentence each."""
    checks: tuple[Check, ...]
    divergences: tuple[Divergence, ...]
    ledger: tuple[Record, ...]
    """Every request of completed turns, with control loads and repeated attempts."""

    @cached_property
    def driver(self) -> str:
        """The program that made the load, as far as its files tell."""
        if not self.records:
            return "no driver yet"
        files = (self.folder / LLMPERF).glob(f"**/*{_RESPONSES}")
        if LLMPERF not in map(_driver, files):
            return "the built-in driver, not llmperf"
        # A file of the built-in driver may be missing; the requests tell what llmperf did not make.
        if any(record.prompt or record.due is not None for record in self.records):
            builtin = "the built-in driver where prompts have names or requests have times"
            return f"llmperf, and {builtin}"
        return "llmperf"


def read(folder: Path) -> Results:
    """Reads a run from ``config.json``, ``ledger.jsonl`` and its other files, if they exist.

    Test cases and variants that the configuration does not name are left out, and so are
    interrupted turns. A missing ledger counts as empty, and a torn last line as not written; the
    notes name both. Raises ConfigError and JournalError.
    """
    config = configuration.read(folder / CONFIG)
    path = folder / LEDGER
    ledger = grouping.at_load_points(config.load, uninterrupted(read_ledger(path), folder))
    records = tuple(last_attempts(ledger, isolated=config.isolated))
    sets = prompts.read(folder)
    cells = {(case.name, name) for case in config.test_cases for name in config.names}
    first = config.load.points[0].name
    counts = [replace(c, load=c.load or first) for c in counters.read(folder / COUNTERS)]
    points = {point.name for point in config.load.points}
    checks = tuple(
        check
        for check in crosscheck.check(records, counts)
        if (check.case, check.variant) in cells and check.load in points
    )
    summary = summarise(
        config,
        ledger,
        sets=sets,
        answers=[*journal.read(folder / ANSWERS, CheckedAnswer)],
        checks=checks,
    )
    disagreements = (line for check in checks for line in check.disagreements.values())
    cached = caveats.of_caches(crosscheck.cached(records, counts), config.names)
    notes = (*_missing(folder, config), *caveats.of_run(config, summary), *cached, *disagreements)
    run = Results(
        folder=folder,
        config=config,
        records=records,
        summary=summary,
        notes=notes,
        checks=checks,
        divergences=tuple(
            divergence
            for divergence in journal.read_json(folder / DIVERGENCE, tuple[Divergence, ...]) or ()
            if (divergence.case, divergence.variant) in cells
        ),
        ledger=tuple(ledger),
    )
    if run.driver.startswith(LLMPERF):
        run = replace(run, notes=(*notes, *caveats.of_llmperf(config)))
    return run


def _missing(folder: Path, config: Config) -> Iterator[str]:
    """Notes what is missing: isolated variants, greedy answers, the end of the ledger."""
    if (parts := read_merged(folder)) is not None:
        yield from parts.sentences
    if config.isolated and any(case.prompts is None for case in config.test_cases):
        yield (
            "Greedy answers were not compared, because the variants did not serve at the same time."
        )
    path = folder / LEDGER
    if not path.exists():
        yield f"There is no {LEDGER} in this folder."
    elif path.read_bytes()[-1:] not in (b"", b"\n"):
        yield f"The last line of {LEDGER} is torn: the benchmark was stopped while writing it."


def _driver(responses: Path) -> str:
    """The driver that wrote a file of responses. The summary beside it names all but llmperf."""
    summary = responses.with_name(responses.name.replace(_RESPONSES, "_summary.json"))
    try:
        return str(json.loads(summary.read_bytes())["driver"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return LLMPERF  # it was killed before it wrote a summary
