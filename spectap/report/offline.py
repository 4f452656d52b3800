"""The report of variants that ran as jobs: what inference_demo's own benchmark timed.

There is no ledger behind it, so it has no interval and no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spectap import config as configuration
from spectap import inference_demo, wording
from spectap.config import Config
from spectap.inference_demo import GENERATION
from spectap.names import CONFIG, INFERENCE_DEMOS
from spectap.report.view import Columns, Row, Table, View, grouped
from spectap.sweep import read_merged

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


def read(folder: Path) -> tuple[View, Config]:
    """Reads ``config.json`` and the reports of the variants: a row for each part that was timed.

    Raises ConfigError, JournalError.
    """
    config = configuration.read(folder / CONFIG)
    timings = {
        name: inference_demo.read(folder / INFERENCE_DEMOS / f"{name}.json")
        for name in config.names
    }
    rows = []
    for variant in config.variants:
        mode = f"{variant.mode}, window {variant.window}" if variant.mode else "plain decoding"
        for part, timing in timings[variant.name].items():
            speed_up = ""
            if part == GENERATION and variant.baseline is not None:
                baseline = timings[variant.baseline][part]
                speed_up = f"{baseline.latency_ms_p50 / timing.latency_ms_p50:.2f}"
            latencies = (timing.latency_ms_p50, timing.latency_ms_p90, timing.latency_ms_p99)
            figures = map(wording.significant, (*latencies, timing.throughput))
            labels = (variant.name, mode, _PARTS.get(part, part))
            rows.append((variant.name, Row(labels, ((*figures, speed_up),))))
    rehearsal = "Rehearsal of " if config.stand_in else ""
    names = ("p50 ms", "p90 ms", "p99 ms", "tokens/s", "speed-up")
    table = Table("", ("variant", "mode", "timed"), (Columns("", names),), grouped(rows))
    view = View(
        title=f"{rehearsal}{config.experiment}: jobs of inference_demo, on {config.model}, "
        "one generation at a time",
        tables=((table, ()),),
        notes=tuple(_notes(folder, config)),
    )
    return view, config


def _notes(folder: Path, config: Config) -> Iterator[str]:
    """What to know of a run of jobs before reading it."""
    if config.stand_in:
        yield f"Nothing was measured here: it is {config.stand_in}."
    if (of_parts := read_merged(folder)) is not None:
        yield from of_parts.sentences
    yield COUNTS
    yield _SPEED_UP
    yield from (_MODES[variant.mode] for variant in config.variants if variant.mode in _MODES)
