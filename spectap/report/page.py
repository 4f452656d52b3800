"""The report: one HTML file that needs nothing but itself, with the figures as PNGs beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from spectap import metrics, palette, wording
from spectap.analysis.crosscheck import TOLERANCE
from spectap.config import Variant
from spectap.names import ADVICE, SUMMARY
from spectap.printing import printable_lines
from spectap.report import (
    answers,
    correct,
    figures,
    loads,
    objectives,
    prompt_sets,
    results,
    sections,
    tables,
    verdicts,
)
from spectap.report.advice.section import section
from spectap.report.plots import canvas
from spectap.report.results import Results
from spectap.rounds import FEWEST_ROUNDS

REPORT: Final = "report.html"

_TEMPLATES: Final = Path(__file__).parent / "templates"
_HYPHEN: Final = re.compile(r"(?<=\d)-(?=\d)")


def write_report(run_dir: Path) -> Path:
    """Writes ``report.html``, the PNGs, ``summary.json`` and ``advice.json`` into ``run_dir``.

    Returns the report. Where nothing speculates there is no ``advice.json``. Needs ``config.json``
    and ``ledger.jsonl`` only. Raises what ``results.read`` raises, OSError.
    """
    return write_results(results.read(run_dir))


def write_results(run: Results) -> Path:
    """The same of a run that has been read already. Raises OSError."""
    drawings = figures.draw(run)
    for drawing in drawings:
        if drawing.png:
            (run.folder / f"{drawing.name}.png").write_bytes(drawing.png)
    (run.folder / SUMMARY).write_text(run.summary.to_json(), encoding="utf-8")
    if run.advice:
        (run.folder / ADVICE).write_text(run.advice.to_json(), encoding="utf-8")
    path = run.folder / REPORT
    path.write_text(_html(run, drawings), encoding="utf-8")
    return path


def _html(run: Results, drawings: tuple[figures.Drawing, ...]) -> str:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["unbroken"] = _unbroken
    page = environment.get_template("report.html.j2")
    style = environment.get_template("report.css.j2")
    headline, said = verdicts.headline(run.summary)
    points = run.config.load.points
    html = page.render(
        run=run,
        summary=run.summary,
        cost=run.config.cost,
        headline=headline,
        said=said,
        means=tuple(answers.means(run.summary)),
        load=loads.words(points),
        several=len(points) > 1,
        compared=len({cell.variant for case in run.summary.cases for cell, _ in case.compared}),
        closed=[point.concurrency for point in points if not point.open],
        objectives=objectives.words(run.summary.objectives) if run.summary.objectives else "",
        by_case=tuple(sections.by_case(run, drawings)),
        by_load=tuple(sections.by_load(run, drawings)),
        warnings=correct.warnings(run.summary),
        correctness=tuple(correct.rows(run.summary)),
        sets=tuple(prompt_sets.sets(run)),
        advised=section(run.advice, run.config.stand_in) if run.advice else None,
        advice_drawings=[drawing for drawing in drawings if drawing.advice],
        drawings=[one for one in drawings if not (one.case or one.load or one.advice)],
        roles={name: colour.role for name, colour in palette.of(run.summary.variants).items()},
        tolerance=TOLERANCE,
        divergences=tables.divergences(run),
        definitions=metrics.METRICS,
        settings=tuple(_settings(run)),
        missing=wording.MISSING,
        fewest=FEWEST_ROUNDS,
        period=wording.period,
        dollars=wording.dollars,
        style=Markup(
            style.render(
                light=_variables(canvas.LIGHT),
                dark=_variables(canvas.DARK),
                roles=[colour.role for colour in palette.ALL],
            )
        ),
    )
    # The direction of writing, changed in a name, would turn our own sentences round.
    return printable_lines(html)


def _unbroken(text: str) -> str:
    """The text with nothing in it at which a line may end inside a figure, an interval or a date.

    Browsers break after a hyphen between digits unless a word joiner follows.
    """
    return _HYPHEN.sub("-\N{WORD JOINER}", wording.unbroken(text))


def _variables(colours: dict[str, str]) -> Markup:
    return Markup(" ".join(f"--{role}: {colour};" for role, colour in colours.items()))


def _settings(run: Results) -> Iterator[tuple[str, str]]:
    load = run.config.load
    yield from run.config.settings.items()
    yield from _of_load(run)
    if not all(case.prompts for case in run.config.test_cases):
        yield "Input tokens", _spread(load.mean_input_tokens, load.stddev_input_tokens)
    yield "Output tokens", _spread(load.mean_output_tokens, load.stddev_output_tokens)
    yield "Timeout", f"{load.timeout_seconds} s per case and round"
    for name, value in load.sampling.items():
        yield f"Sampling: {name}", str(value)
    for variant in run.config.variants:
        yield f"Variant {variant.name}", ", ".join(_parts(variant))
    for case in run.config.test_cases:
        yield f"Prompt of {case.name}", case.source


def _of_load(run: Results) -> Iterator[tuple[str, str]]:
    load = run.config.load
    yield "Load made by", run.driver
    closed = [point for point in load.points if not point.open]
    if closed:
        yield "Concurrency", f"{wording.listed([str(p.concurrency) for p in closed])}, closed loop"
    rates = [point for point in load.points if point.open]
    if rates:
        yield (
            "Requests a second",
            f"{wording.listed([f'{p.rate:g}' for p in rates])}, open loop at the times of a "
            "Poisson process, the same for all variants",
        )
    yield "Requests", f"{loads.requests(load)} per case, variant and round; {load.rounds}"
    if arrangement := loads.arrangement(run.config):
        yield "Measured", arrangement
    yield "Warm-up", "one wave per endpoint, left out of every figure"


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
        ("without", variant.without),
    ):
        if value is not None:
            yield f"{words} {value}"
    if variant.endpoint is not None:
        yield f"at {variant.endpoint}"


def _spread(mean: int, deviation: int) -> str:
    return f"{mean}, standard deviation {deviation}"
