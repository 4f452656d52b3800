"""What is left of a rehearsal that went well, and what is said of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmark.load import llmperf
from benchmark.report import terminal
from rehearsal.console import Steps


@dataclass(frozen=True)
class Outcome:
    """``differences``: from the pod. ``endpoints``: what is said of them. ``left_out``: types of
    resources that were not deployed."""

    run_dir: Path
    differences: tuple[str, ...]
    endpoints: tuple[str, ...]
    left_out: Counter[str]

    def summary(self, steps: Steps) -> str:
        """What is printed at the end."""
        results = terminal.render(self.run_dir, terminal.terminal_width())
        return "\n".join([results, *self._circumstances(), *self._ends(steps)])

    def _circumstances(self) -> Iterator[str]:
        left_out = ", ".join(f"{count} {kind}" for kind, count in sorted(self.left_out.items()))
        yield "Not as in the pod:"
        yield from (f"  {difference}" for difference in self.differences)
        first, *more = self.endpoints
        yield f"Endpoints: {first}"
        yield from (f"  {line}" for line in more)
        yield f"AWS: moto, whose CloudFormation left out {left_out or 'nothing'}"
        yield f"Load: made by {load_maker(self.run_dir)}"

    def _ends(self, steps: Steps) -> Iterator[str]:
        times = ", ".join(f"{step.title} {step.seconds:.0f}" for step in steps.done)
        yield f"Time: {steps.seconds:.0f} s ({times})"
        yield f"Report: {os.path.relpath(self.run_dir / 'report.html')}"


def load_maker(run_dir: Path) -> str:
    """The program that made the load, by its own word."""
    folders = {path.parent for path in run_dir.rglob("*_summary.json")}
    makers = {str(llmperf.summary(folder).get("driver", llmperf.NAME)) for folder in folders}
    return ", ".join(sorted(makers)) or "what does not say its name"
