"""The report of variants that ran as jobs: what inference_demo's own benchmark timed.

There is no ledger behind it, so it has no interval and no verdict.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from spectap import config as configuration
from spectap import inference_demo, wording
from spectap.config import Config
from spectap.inference_demo import GENERATION, Timing
from spectap.names import CONFIG, INFERENCE_DEMOS
from spectap.printing import printable_lines
from spectap.sweep import read_merged

REPORT: Final = "report.html"
HEADS: Final = ("variant", "mode", "timed", "p50 ms", "p90 ms", "p99 ms", "tokens/s", "speed-up")

COUNTS: Final = (
    "All figures are those of inference_demo --benchmark, as published: 20 generations, one after "
    "another, from random token ids below 100. So acceptance has nothing to do with a text, and no "
    "answer is checked. Compare the variants with each other, and with no service. The throughput "
    "takes each generation for as long as the compiled length, the prompt's tokens included."
)
"""``benchmark_sampling``: ``torch.randint(0, 100, ...)``, ``n_runs * max_length / total_time``."""

_SPEED_UP: Final = "Speed-up: p50 of the baseline's whole generation over that of the variant."
_MODES: Final = {
    "vanilla": "vanilla: after the warm-up the draft model begins each generation without a "
    "prefill, and the first step of each yields one token as a rule. That is how NxDI does it.",
    "medusa": "medusa: NxDI does not keep what it accepted in its place in the cache, so that "
    "later steps can attend to rejected drafts. It also lays out the weights of the baseline's "
    "steps for speed, and not those of Medusa's.",
}
_PARTS: Final = {
    GENERATION: "whole generation",
    "context_encoding_model": "prefill",
    "token_generation_model": "step",
    "speculation_model": "verification step",
}


@dataclass(frozen=True)
class Report:
    """One run of jobs, in words and figures."""

    folder: Path
    config: Config
    rows: tuple[tuple[str, ...], ...]
    """A text for each of ``HEADS``."""
    notes: tuple[str, ...]

    @property
    def heading(self) -> str:
        """What was run."""
        what = "Rehearsal of " if self.config.stand_in else ""
        return (
            f"{what}{self.config.experiment}: jobs of inference_demo, on {self.config.model}, "
            "one generation at a time"
        )

    def write(self) -> Path:
        """Writes the page; returns where it is. Raises OSError."""
        # Imported here: the terminal's table does not need it.
        from jinja2 import Environment, FileSystemLoader, StrictUndefined

        templates = FileSystemLoader(Path(__file__).parent / "templates")
        environment = Environment(loader=templates, autoescape=True, undefined=StrictUndefined)
        html = environment.get_template("offline.html.j2").render(report=self, heads=HEADS)
        path = self.folder / REPORT
        path.write_text(printable_lines(html), encoding="utf-8")
        return path

    def table(self, columns: int) -> str:
        """The same for a terminal of so many columns. Ends with a newline."""
        text = io.StringIO()
        console = Console(file=text, width=columns, markup=False, highlight=False, emoji=False)
        table = Table(*HEADS, box=box.SIMPLE_HEAD, pad_edge=False)
        for column in table.columns[3:]:
            column.justify = "right"
        for row in self.rows:
            table.add_row(*row)
        console.print(self.heading, table, *(f"* {note}" for note in self.notes), sep="\n")
        return printable_lines(text.getvalue())


def read(folder: Path) -> Report:
    """Reads ``config.json`` and the reports of the variants. Raises ConfigError, JournalError."""
    config = configuration.read(folder / CONFIG)
    timings = {
        name: inference_demo.read(folder / INFERENCE_DEMOS / f"{name}.json")
        for name in config.names
    }
    return Report(
        folder=folder,
        config=config,
        rows=tuple(
            _row(config, name, part, timing, timings[_baseline(config, name)])
            for name in config.names
            for part, timing in timings[name].items()
        ),
        notes=tuple(_notes(folder, config)),
    )


def _baseline(config: Config, name: str) -> str:
    (variant,) = (variant for variant in config.variants if variant.name == name)
    return variant.baseline or name


def _row(
    config: Config, name: str, part: str, timing: Timing, baseline: Mapping[str, Timing]
) -> tuple[str, ...]:
    (variant,) = (variant for variant in config.variants if variant.name == name)
    compared = part == GENERATION and variant.baseline is not None
    speed_up = baseline[part].latency_ms_p50 / timing.latency_ms_p50 if compared else None
    figures = (timing.latency_ms_p50, timing.latency_ms_p90, timing.latency_ms_p99)
    return (
        name,
        f"{variant.mode}, window {variant.window}" if variant.mode else "plain decoding",
        _PARTS.get(part, part),
        *map(wording.significant, (*figures, timing.throughput)),
        f"{speed_up:.2f}" if speed_up else "",
    )


def _notes(folder: Path, config: Config) -> Iterator[str]:
    """What to know of a run of jobs before reading it."""
    if config.stand_in:
        yield f"Nothing was measured here: it is {config.stand_in}."
    if (of_parts := read_merged(folder)) is not None:
        yield from of_parts.sentences
    yield COUNTS
    yield _SPEED_UP
    yield from (_MODES[variant.mode] for variant in config.variants if variant.mode in _MODES)
