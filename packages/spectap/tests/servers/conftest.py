"""``measure`` against two scripted servers, as a user would run it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from spectap.analysis.summary import Cell, Summary
from spectap.analysis.verdicts import Verdict
from spectap.commands import recorded
from spectap.metrics import Metric
from spectap.records.ledger import read_ledger
from spectap.records.record import Record
from spectap.report import results, run_view, terminal
from tests.commands.processes import Benchmark, Ended, serving
from tests.servers.scripted import TOKENS, Answer, Servers

LINE = {"name": "line", "line": "The meaning of life is 42", "structure": "open-ended"}


@dataclass(frozen=True)
class Measured:
    """What ``measure`` left and printed, and the servers that it measured."""

    ended: Ended
    folder: Path
    servers: Servers

    @property
    def text(self) -> str:
        """All that was printed, on one line."""
        return " ".join(f"{self.ended.out} {self.ended.err}".split())

    @cached_property
    def records(self) -> list[Record]:
        """Without the warm-up."""
        return [record for record in read_ledger(self.folder / "ledger.jsonl") if record.round > 0]

    @cached_property
    def summary(self) -> Summary:
        return results.read(self.folder).summary

    def of(self, side: str) -> list[Record]:
        return [record for record in self.records if record.variant == side]

    def cell(self, side: str) -> Cell:
        return next(c for case in self.summary.cases for c in case.cells if c.variant == side)

    def p50(self, side: str, metric: Metric) -> float | None:
        """In milliseconds for times; None where it has no values."""
        percentiles = self.cell(side).measure(metric)
        scale = 1000 if metric.unit == "Seconds" else 1
        return None if percentiles is None else percentiles.p50 * scale

    @property
    def verdict(self) -> Verdict:
        comparison = self.cell("sd").comparison
        assert comparison
        return comparison.verdict


Measure = Callable[..., Measured]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: Benchmark) -> Measure:
    """Measures ``base`` and ``sd`` with further options, and asserts how that ends.

    The load is the real driver's. The page is not drawn.
    """
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps(LINE) + "\n", "utf-8")
    monkeypatch.setattr(recorded, "draw", _show)
    environment = {"RESULTS_DIR": str(tmp_path), "RUN_ID": "run-1", "COLUMNS": "150"}

    def call(
        answer: Answer,
        *options: str,
        status: int = 0,
        at: Callable[[Servers, str], str] = Servers.url,
        **serves: Any,
    ) -> Measured:
        defaults = {"--rounds": "4", "--requests": "3", "--concurrency": "1", "--wait": "6"}
        defaults |= {"--output-tokens": str(TOKENS), "--cases": str(cases)}
        with serving(Servers(answer, **serves)) as (servers,):
            arguments = [f"{side}={at(servers, side)}" for side in servers.ports]
            for option, value in defaults.items():
                arguments += [option, value] if option not in options else []
            ended = benchmark("measure", *arguments, *options, **environment)
        measured = Measured(ended, tmp_path / "run-1", servers)
        assert ended.status == status, measured.text
        return measured

    return call


def _show(folder: Path, *, verbose: bool) -> None:
    """Shows every figure and note, however a user asks."""
    terminal.show(run_view.of_run(results.read(folder)), verbose=True)
