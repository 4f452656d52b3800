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
class Measured:
    """What the benchmark left, and how it ran."""

    run_dir: Path
    differences: tuple[str, ...]
    """Everything in which the benchmark ran differently from its pod."""
    endpoints: tuple[str, ...]
    """What the endpoints say of themselves."""
    absent: frozenset[tuple[str, str]] = frozenset()
    """What dashboards show and this run has not measured: dimensions with their values."""
    failed: tuple[str, ...] = ()
    """A line for each index that failed for good."""
    load: str | None = None
    """What made the load, where no program did that says its name."""
    own: frozenset[tuple[str, str]] = frozenset()
    """What this run has measured and no dashboard shows, in the same form as ``absent``."""


@dataclass(frozen=True)
class Outcome:
    """A rehearsal that has a report."""

    measured: Measured

    @property
    def run_dir(self) -> Path:
        """The run's folder."""
        return self.measured.run_dir

    def summary(self, console: Console) -> str:
        """The text that is printed at the end."""
        results = terminal.render(self.run_dir, terminal.terminal_width())
        return "\n".join([results, *self._ends(console)])

    def write_stand_ins(self) -> None:
        """Writes what stood in for what into the run's folder."""
        text = "".join(f"{line}\n" for line in self._stand_ins())
        (self.run_dir / STAND_INS).write_text(text, encoding="utf-8")

    def _stand_ins(self) -> Iterator[str]:
        yield "Not as in the pod:"
        yield from (f"  {difference}" for difference in self.measured.differences)
        first, *more = self.measured.endpoints
        yield f"Endpoints: {first}"
        yield from (f"  {line}" for line in more)
        yield "AWS: moto, with a bucket and metrics; no stack was deployed"
        yield f"Load: {self.measured.load or f'made by {load_maker(self.run_dir)}'}"

    def _ends(self, console: Console) -> Iterator[str]:
        if self.measured.failed:
            yield "Failed for good, and so in no figure:"
            yield from (f"  {line}" for line in self.measured.failed)
        times = ", ".join(f"{stage.title} {stage.seconds:.0f}" for stage in console.done)
        yield f"Time: {console.seconds:.0f} s ({times})"
        yield f"What stood in for what: {os.path.relpath(self.run_dir / STAND_INS)}"
        yield f"Report: {os.path.relpath(self.run_dir / 'report.html')}"


def load_maker(run_dir: Path) -> str:
    """The name of the program that made the load, as it reports it."""
    folders = {path.parent for path in run_dir.rglob("*_summary.json")}
    makers = {str(llmperf.summary(folder).get("driver", llmperf.NAME)) for folder in folders}
    return ", ".join(sorted(makers)) or "what does not say its name"
