"""The results of a rehearsal, and the summary that it ends with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deployment.console import Console
from spectap.load import llmperf
from spectap.report import terminal

STAND_INS: Final = "stand-ins.txt"
"""In the run's folder: what stood in for what."""


@dataclass(frozen=True)
class Outcome:
    """The results of the benchmark, and how it ran."""

    run_dir: Path
    differences: tuple[str, ...]
    """Everything in which the benchmark ran differently from its pod."""
    endpoints: tuple[str, ...]
    """The description of the endpoints."""
    absent: frozenset[tuple[str, str]] = frozenset()
    """What dashboards show and this run has not measured: dimensions with their values."""
    failed: tuple[str, ...] = ()
    """A line for each index that failed for good."""
    load: str | None = None
    """What made the load, where no program did that reports its name."""
    added: frozenset[tuple[str, str]] = frozenset()
    """What this run has measured and no dashboard shows, in the same form as ``absent``."""

    def summary(self, console: Console) -> str:
        """The text that is printed at the end."""
        lines = [terminal.render(self.run_dir, terminal.terminal_width())]
        if self.failed:
            lines += ["Failed for good, and so in no figure:", *_indented(self.failed)]
        times = ", ".join(f"{stage.title} {stage.seconds:.0f}" for stage in console.done)
        lines += [
            f"Time: {console.seconds:.0f} s ({times})",
            f"What stood in for what: {os.path.relpath(self.run_dir / STAND_INS)}",
            f"Report: {os.path.relpath(self.run_dir / 'report.html')}",
        ]
        return "\n".join(lines)

    def write_stand_ins(self) -> None:
        """Writes what stood in for what into the run's folder."""
        first, *more = self.endpoints
        lines = [
            "Not as in the pod:",
            *_indented(self.differences),
            f"Endpoints: {first}",
            *_indented(more),
            "AWS: moto, with a bucket and metrics; no stack was deployed",
            f"Load: {self.load or f'made by {load_maker(self.run_dir)}'}",
        ]
        text = "".join(f"{line}\n" for line in lines)
        (self.run_dir / STAND_INS).write_text(text, encoding="utf-8")


def load_maker(run_dir: Path) -> str:
    """The name of the program that made the load, as it reports it."""
    folders = {path.parent for path in run_dir.rglob("*_summary.json")}
    makers = {llmperf.driver(folder) for folder in folders}
    return ", ".join(sorted(makers)) or "what does not say its name"


def _indented(lines: tuple[str, ...] | list[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
