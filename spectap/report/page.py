"""The report: one HTML file that needs nothing but itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from spectap import metrics, palette, wording
from spectap.analysis.crosscheck import TOLERANCE
from spectap.config import Config
from spectap.load_points import FEWEST_ROUNDS
from spectap.names import ADVICE, SUMMARY
from spectap.printing import printable_lines
from spectap.report import advice, cells, figures, phrases, quality, run_view, verdicts
from spectap.report.plots import canvas
from spectap.report.results import Results
from spectap.report.view import Figure, View

REPORT: Final = "report.html"

_TEMPLATES: Final = Path(__file__).parent / "templates"
_HYPHEN: Final = re.compile(r"(?<=\d)-(?=\d)")


def write_results(run: Results) -> Path:
    """Writes ``report.html``, ``summary.json`` and ``advice.json`` of a run.

    Returns the report. Where nothing speculates there is no ``advice.json``. Raises OSError.
    """
    (run.folder / SUMMARY).write_text(run.summary.to_json(), encoding="utf-8")
    if run.advice:
        (run.folder / ADVICE).write_text(run.advice.to_json(), encoding="utf-8")
    return _write(run.folder, html(run, figures.draw(run)))


def write_jobs(folder: Path, view: View, config: Config) -> Path:
    """Writes the page of a run of jobs; returns where it is. Raises OSError."""
    return _write(folder, _rendered("offline.html.j2", view=view, config=config))


def html(run: Results, drawings: Sequence[Figure] = ()) -> str:
    """The page of a run. Without ``drawings`` it has no figures."""
    return _rendered(
        "report.html.j2",
        view=run_view.of_run(run),
        run=run,
        drawings=drawings,
        colours=palette.of(run.summary.variants),
        metrics=metrics.METRICS,
        tolerance=100 * TOLERANCE,
        fewest_rounds=FEWEST_ROUNDS,
    )


def _write(folder: Path, text: str) -> Path:
    path = folder / REPORT
    path.write_text(text, encoding="utf-8")
    return path


def _rendered(template: str, **values: Any) -> str:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"unbroken": _unbroken, "short": "{:g}".format}
    modules = {
        "advising": advice,
        "cells": cells,
        "phrases": phrases,
        "quality": quality,
        "run_view": run_view,
        "verdict": verdicts,
        "wording": wording,
    }
    environment.globals.update(modules)
    style = environment.get_template("report.css.j2").render(
        light=_variables(canvas.LIGHT),
        dark=_variables(canvas.DARK),
        roles=[colour.role for colour in palette.ALL],
    )
    page = environment.get_template(template).render(**values, style=Markup(style))
    # The direction of writing, changed in a name, would turn our own sentences round.
    return printable_lines(page)


def _unbroken(text: str) -> str:
    """The text with nothing in it at which a line may end inside a figure, an interval or a date.

    Browsers break after a hyphen between digits unless a word joiner follows.
    """
    # What is markup stays markup, and is not escaped again.
    return type(text)(_HYPHEN.sub("-\N{WORD JOINER}", wording.unbroken(text)))


def _variables(colours: Mapping[str, str]) -> Markup:
    return Markup(" ".join(f"--{role}: {colour};" for role, colour in colours.items()))
