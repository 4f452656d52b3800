"""The report of variants that ran as jobs, timed by inference_demo's own benchmark.

Jobs have no ledger, so the report has no interval and no verdict. ``--benchmark`` writes an object
with a report for each part of the model, or null for a part that did not run
(neuronx-distributed-inference v0.6.10598, ``utils/benchmark.py`` and ``utils/constants.py``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from spectap import wording
from spectap.errors import JournalError, problems
from spectap.inputs import config as configuration
from spectap.inputs.config import Config
from spectap.names import CONFIG, INFERENCE_DEMOS
from spectap.report.view import Columns, Row, Table, View, grouped
from spectap.run.sweep import read_merged

_GENERATION: Final = "e2e_model"  # prefill and all steps
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
    _GENERATION: "whole generation",
    "context_encoding_model": "prefill",
    "token_generation_model": "step",
    "speculation_model": "verification step",
}


@dataclass(frozen=True)
class Timing:
    """The timing of one part: milliseconds, and tokens a second. The file has more percentiles."""

    latency_ms_p50: float
    latency_ms_p90: float
    latency_ms_p99: float
    throughput: float


_REPORT: Final = TypeAdapter(dict[str, Timing | None])


def read_timings(path: Path) -> Mapping[str, Timing]:
    """The timings of one variant, by part. Raises JournalError."""
    try:
        report = _REPORT.validate_json(path.read_bytes())
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise JournalError(f"{path}: {next(problems(error))}") from None
    timings = {part: timing for part, timing in report.items() if timing is not None}
    if _GENERATION not in timings:
        raise JournalError(f"{path}: {_GENERATION}: is missing")
    return timings


def read(folder: Path) -> tuple[View, Config]:
    """Reads ``config.json`` and the reports of the variants: a row for each part that was timed.

    Raises ConfigError, JournalError.
    """
    config = configuration.read(folder / CONFIG)
    timings = {
        name: read_timings(folder / INFERENCE_DEMOS / f"{name}.json") for name in config.names
    }
    rows = []
    for variant in config.variants:
        mode = f"{variant.mode}, window {variant.window}" if variant.mode else "plain decoding"
        for part, timing in timings[variant.name].items():
            speed_up = ""
            if part == _GENERATION and variant.baseline is not None:
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
    if config.stand_in:
        yield f"Nothing was measured here: it is {config.stand_in}."
    if (of_parts := read_merged(folder)) is not None:
        yield from of_parts.sentences
    yield COUNTS
    yield _SPEED_UP
    yield from (_MODES[variant.mode] for variant in config.variants if variant.mode in _MODES)
