"""The report: one HTML file that needs nothing but itself, with the figures as PNGs beside it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from benchmark import metrics, palette, wording
from benchmark.analysis import intervals
from benchmark.analysis.crosscheck import TOLERANCE
from benchmark.analysis.intervals import Interval
from benchmark.analysis.summary import Case, Finding, Summary, Verdict
from benchmark.config import FEWEST_ROUNDS, Variant
from benchmark.names import SUMMARY
from benchmark.report import figures, results, tables
from benchmark.report.plots import canvas
from benchmark.report.results import Results

REPORT: Final = "report.html"

_TEMPLATES: Final = Path(__file__).parent / "templates"

_FOUND: Final = (
    (Finding.FASTER, "{} is faster in"),
    (Finding.SLOWER, "{} is slower in"),
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
    headline, said = _headline(run.summary)
    return page.render(
        run=run,
        summary=run.summary,
        cost=run.config.cost,
        headline=headline,
        said=said,
        verdicts=tuple(_verdicts(run.summary)),
        drawings=drawings,
        tables=tables.tables(run),
        roles={name: colour.role for name, colour in palette.of(run.summary.variants).items()},
        checked=tables.checked(run),
        tolerance=TOLERANCE,
        divergences=tables.divergences(run),
        definitions=metrics.METRICS,
        settings=tuple(_settings(run)),
        missing=wording.MISSING,
        fewest=FEWEST_ROUNDS,
        period=wording.period,
        times=intervals.times,
        dollars=wording.dollars,
        style=Markup(
            style.render(
                light=_variables(canvas.LIGHT),
                dark=_variables(canvas.DARK),
                roles=[colour.role for colour in palette.ALL],
            )
        ),
    )


def _variables(colours: dict[str, str]) -> Markup:
    return Markup(" ".join(f"--{role}: {colour};" for role, colour in colours.items()))


def _headline(summary: Summary) -> tuple[str, tuple[str, ...]]:
    """The heading, and below it a line for each variant where several are compared."""
    findings: dict[str, Counter[Finding]] = defaultdict(Counter)
    for case in summary.cases:
        for cell, comparison in case.compared:
            findings[cell.variant][comparison.verdict.finding] += 1
    cases = wording.count(len(summary.cases), "test case")
    said = [_tell(variant, found) for variant, found in findings.items()]
    if not said:
        return f"{summary.subject} in {cases}", ()
    if len(said) > 1:
        return f"{len(said)} variants compared in {cases}", tuple(said)
    return f"{said[0][:1].upper()}{said[0][1:]} of {cases}", ()


def _tell(variant: str, found: Counter[Finding]) -> str:
    """The findings on one variant, counted: ``SD is faster in 2, slower in 1``."""
    parts = [f"{words.format(variant)} {found[one]}" for one, words in _FOUND if found[one]]
    if without := sum(found[one] for one in found if not one.decided):
        parts.append(f"{variant} has no verdict in {without}")
    return ", ".join(parts).replace(f", {variant} is slower", ", slower")


@dataclass(frozen=True)
class _Bar:
    """Where the parts of a speed-up's bar begin on a logarithmic scale, and how long they are.

    All in percent of the scale: the interval, the stem from 1x to the point, the point, and 1x.
    """

    low: float
    width: float
    stem: float
    stem_width: float
    point: float
    one: float


@dataclass(frozen=True)
class _Line:
    """The verdict on one variant in one test case."""

    case: Case
    variant: str
    """Empty where the case has one verdict only, whose sentence says the name."""
    verdict: Verdict
    times: str
    bar: _Bar | None
    colour: str
    """Role of the colour of the faster variant."""
    notes: tuple[str, ...]


def _verdicts(summary: Summary) -> Iterator[_Line]:
    colours = palette.of(summary.variants)
    lines = [(case, *pair) for case in summary.cases for pair in case.compared]
    shown = [found.speedup for _, _, found in lines if found.verdict.finding.decided]
    place = _scale([interval for interval in shown if interval])
    for case, cell, found in lines:
        finding = found.verdict.finding
        speedup = found.speedup if finding.decided else None
        faster = {Finding.FASTER: cell.variant, Finding.SLOWER: found.baseline}.get(finding)
        yield _Line(
            case=case,
            variant=cell.variant if len(case.compared) > 1 else "",
            verdict=found.verdict,
            times=intervals.times(speedup) if speedup else wording.MISSING,
            bar=_bar(speedup, place) if speedup else None,
            colour=colours[faster].role if faster else "muted",
            notes=case.notes if cell is case.compared[-1][0] else (),
        )


def _scale(shown: list[Interval]) -> Callable[[float], float]:
    low = min([0.8, *(interval.low for interval in shown)]) / 1.05
    high = max([1.25, *(interval.high for interval in shown)]) * 1.05
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
    yield "Requests", f"{load.requests} per case, variant and round; {load.rounds}"
    yield "Warm-up", "one wave per endpoint, left out of every figure"
    if not any(case.prompts for case in run.config.test_cases):
        yield "Input tokens", _spread(load.mean_input_tokens, load.stddev_input_tokens)
    yield "Output tokens", _spread(load.mean_output_tokens, load.stddev_output_tokens)
    yield "Timeout", f"{load.timeout_seconds} s per case and round"
    for name, value in load.sampling.items():
        yield f"Sampling: {name}", str(value)
    for variant in run.config.variants:
        yield f"Variant {variant.name}", ", ".join(_parts(variant))
    for case in run.config.test_cases:
        yield f"Prompt of {case.name}", case.source


def _parts(variant: Variant) -> Iterator[str]:
    """What is known of a variant."""
    yield f"compared with {variant.baseline}" if variant.baseline else "a baseline"
    for words, value in (
        ("runtime", variant.runtime),
        ("mode", variant.mode),
        ("draft", variant.draft),
        ("window", variant.window),
        ("batch", variant.batch),
        ("artifact", variant.artifact),
    ):
        if value is not None:
            yield f"{words} {value}"
    yield f"at {variant.endpoint}"


def _spread(mean: int, deviation: int) -> str:
    return f"{mean}, standard deviation {deviation}"
