"""The report: one HTML file that needs nothing but itself, with the figures as PNGs beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmark import wording
from benchmark.analysis.crosscheck import TOLERANCE
from benchmark.analysis.intervals import MINIMUM_SAMPLE, RESAMPLES, Interval
from benchmark.analysis.summary import SUMMARY, Case, Summary
from benchmark.analysis.verdict import Finding
from benchmark.report import figures, results, tables
from benchmark.report.plots import canvas
from benchmark.report.results import Results

REPORT: Final = "report.html"

_TEMPLATES: Final = Path(__file__).parent / "templates"

# The colours of a dark page in the order of ``canvas.COLOURS``; as text each passes 4.5:1.
_DARK: Final = dict(
    zip(
        canvas.COLOURS,
        ("#14181d", "#e8ebef", "#9da7b1", "#343c46", "#63b3ed", "#f5a25d"),
        strict=True,
    )
)

_FOUND: Final = (
    (Finding.FASTER, "SD is faster in"),
    (Finding.SLOWER, "SD is slower in"),
    (Finding.NEGLIGIBLE, "the difference is too small to matter in"),
    (Finding.UNDECIDED, "no difference can be told in"),
)


def write_report(run_dir: Path) -> Path:
    """Writes ``report.html``, the PNGs and ``summary.json`` into ``run_dir``; returns the report.

    Needs ``config.json`` and ``ledger.jsonl`` only. Raises what ``results.read`` raises, OSError.
    """
    run = results.read(run_dir)
    drawings = figures.draw(run)
    for drawing in drawings:
        if drawing.png:
            (run_dir / f"{drawing.name}.png").write_bytes(drawing.png)
    (run_dir / SUMMARY).write_text(run.summary.to_json(), encoding="utf-8")
    path = run_dir / REPORT
    path.write_text(_html(run, drawings), encoding="utf-8")
    return path


def _html(run: Results, drawings: tuple[figures.Drawing, ...]) -> str:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    page = environment.get_template("report.html.j2")
    style = environment.get_template("report.css.j2")
    return page.render(
        run=run,
        summary=run.summary,
        cost=run.config.cost,
        headline=_headline(run.summary),
        verdicts=_verdicts(run.summary),
        drawings=drawings,
        tables=tables.PERCENTILES,
        comparisons=tables.comparisons(run),
        checked=tables.checked(run),
        tolerance=TOLERANCE,
        divergences=tables.divergences(run),
        settings=tuple(_settings(run)),
        missing=wording.MISSING,
        resamples=RESAMPLES,
        minimum=MINIMUM_SAMPLE,
        period=wording.period,
        times=wording.times,
        dollars=wording.dollars,
        style=Markup(style.render(light=_variables(canvas.COLOURS), dark=_variables(_DARK))),
    )


def _variables(colours: dict[str, str]) -> Markup:
    return Markup(" ".join(f"--{role}: {colour};" for role, colour in colours.items()))


def _headline(summary: Summary) -> str:
    found = Counter(case.verdict.finding for case in summary.cases)
    total = len(summary.cases)
    decided = [f"{words} {found[finding]}" for finding, words in _FOUND if found[finding]]
    undecided = total - sum(found[finding] for finding, _ in _FOUND)
    if undecided:
        decided.append(f"there is no verdict for {undecided}")
    text = ", ".join(decided).replace(", SD is slower", ", slower")
    return f"{text[:1].upper()}{text[1:]} of {wording.count(total, 'test case')}"


@dataclass(frozen=True)
class _Bar:
    """Where the parts of a speed-up's bar begin on a logarithmic scale, and how long they are.

    All in percent of the scale: the interval, the stem from 1x to the point, the point and 1x.
    """

    low: float
    width: float
    stem: float
    stem_width: float
    point: float
    one: float


def _verdicts(summary: Summary) -> list[tuple[Case, _Bar | None]]:
    shown = [
        (case, case.speedup if case.verdict.finding.decided else None) for case in summary.cases
    ]
    place = _scale([interval for _, interval in shown if interval])
    return [(case, _bar(interval, place) if interval else None) for case, interval in shown]


def _scale(intervals: list[Interval]) -> Callable[[float], float]:
    low = min([0.8, *(interval.low for interval in intervals)]) / 1.05
    high = max([1.25, *(interval.high for interval in intervals)]) * 1.05
    return lambda ratio: round(100 * math.log(ratio / low) / math.log(high / low), 2)


def _bar(interval: Interval, place: Callable[[float], float]) -> _Bar:
    low, high = place(interval.low), place(interval.high)
    point, one = place(interval.point), place(1.0)
    return _Bar(
        low=low,
        width=round(high - low, 2),
        stem=min(point, one),
        stem_width=round(abs(point - one), 2),
        point=point,
        one=one,
    )


def _settings(run: Results) -> Iterator[tuple[str, str]]:
    load = run.config.load
    yield from run.config.settings.items()
    yield "Load made by", run.driver
    yield "Concurrency", f"{load.concurrency}, closed loop"
    yield "Requests", f"{load.requests} per case, variant and round; {load.rounds} rounds"
    yield "Warm-up", "one wave per endpoint, left out"
    yield "Input tokens", _spread(load.mean_input_tokens, load.stddev_input_tokens)
    yield "Output tokens", _spread(load.mean_output_tokens, load.stddev_output_tokens)
    yield "Timeout", f"{load.timeout_seconds} s per case and round"
    for name, value in load.sampling.items():
        yield f"Sampling: {name}", str(value)
    for variant, endpoint in run.config.endpoints.items():
        yield f"Endpoint of {variant}", endpoint
    for case in run.config.test_cases:
        yield f"Prompt of {case.name}", "llmperf's own text" if case.line is None else case.line


def _spread(mean: int, deviation: int) -> str:
    return f"{mean}, standard deviation {deviation}"
