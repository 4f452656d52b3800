"""``measure`` against two scripted servers, as a user would run it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from spectap.__main__ import main
from spectap.analysis.summary import Cell, Summary, Verdict
from spectap.commands import recorded
from spectap.metrics import Metric
from spectap.records.ledger import read_ledger
from spectap.records.record import Record
from spectap.report import results, run_view, terminal
from tests.commands.processes import Ended
from tests.servers.scripted import TOKENS, Servers

LINE = {"name": "line", "line": "The meaning of life is 42", "structure": "open-ended"}


@dataclass(frozen=True)
class Measured:
    """What ``measure`` left and printed."""

    ended: Ended
    folder: Path

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

    def verdict(self) -> Verdict | None:
        comparison = self.cell("sd").comparison
        return comparison.verdict if comparison else None


Measure = Callable[..., Measured]


@pytest.fixture
def measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Measure:
    """Measures ``base`` and ``sd`` with further options; ``urls`` replaces their URLs.

    The load is the real driver's. The page is not drawn.
    """
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps(LINE) + "\n", "utf-8")
    monkeypatch.setattr(recorded, "draw", _show)
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path))
    monkeypatch.setenv("RUN_ID", "run-1")
    monkeypatch.setenv("COLUMNS", "150")

    def call(servers: Servers, *options: str, urls: dict[str, str] | None = None) -> Measured:
        urls = urls or {side: servers.url(side) for side in servers.ports}
        defaults = {"--rounds": "4", "--requests": "3", "--concurrency": "1", "--wait": "6"}
        defaults |= {"--output-tokens": str(TOKENS), "--cases": str(cases)}
        arguments = [f"{side}={url}" for side, url in urls.items()]
        for option, value in defaults.items():
            arguments += [option, value] if option not in options else []
        monkeypatch.setattr("sys.argv", ["spectap", "measure", *arguments, *options])
        status: object
        try:
            status = main()
        except SystemExit as refused:
            status = refused.code
        return Measured(Ended(status, *capsys.readouterr()), tmp_path / "run-1")

    return call


def _show(folder: Path, *, verbose: bool) -> None:
    """Shows every figure and note, however a user asks."""
    terminal.show(run_view.of_run(results.read(folder)), verbose=True)
