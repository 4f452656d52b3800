"""The report's page: one HTML file that needs no other, and the choice of its figures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure as Drawing

from spectap import metrics, wording
from spectap.analysis.crosscheck import TOLERANCE
from spectap.analysis.summary import Case, Summary
from spectap.inputs import load_points
from spectap.inputs.config import Config
from spectap.inputs.load_points import FEWEST_ROUNDS
from spectap.names import REPORT
from spectap.records.journal import write_whole
from spectap.report import (
    caveats,
    cells,
    palette,
    phrases,
    published,
    quality,
    run_view,
    windows,
)
from spectap.report.plots import at_load, canvas, over_loads
from spectap.report.results import Results
from spectap.report.view import Figure, View
from spectap.wording import printable_lines

_TEMPLATES: Final = Path(__file__).parent / "templates"
_FIGURE: Final = re.compile(r"\b\d(?:[\d.,-]*\d)?\b(?: %)?")

_Drawings = Iterator[tuple[Figure, Drawing | None]]

_RATIOS: Final = "A multiple of the baseline's, with 95 % intervals; at 1 there is no difference."
_HOLLOW: Final = "Hollow: a queue is measured there, or requests were not sent at their times."


def write_results(run: Results) -> Path:
    """Writes ``report.html`` of a run; returns where it is. Raises OSError."""
    return _write(run.folder, html(run, draw(run)))


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
        metrics=metrics.METRICS,
        tolerance=100 * TOLERANCE,
        fewest_rounds=FEWEST_ROUNDS,
    )


def _write(folder: Path, text: str) -> Path:
    path = folder / REPORT
    write_whole(path, [text.encode()])
    return path


def _rendered(template: str, **values: Any) -> str:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {"unbroken": _unbroken, "short": "{:g}".format}
    modules = caveats, cells, phrases, published, quality, run_view, windows, wording
    environment.globals.update({of.__name__.rpartition(".")[2]: of for of in modules})
    environment.globals["listed_loads"] = load_points.listed
    style = environment.get_template("report.css.j2").render(
        light=_variables(canvas.LIGHT),
        dark=_variables(canvas.DARK),
        roles=[colour.role for colour in palette.ALL],
    )
    page = environment.get_template(template).render(**values, style=Markup(style))
    # The direction of writing, changed in a name, would turn our own sentences round.
    return printable_lines(page)


def _unbroken(text: str) -> Markup:
    """The text with a span round each interval, date and percentage, so that no line breaks in it.

    No-break characters would be copied along with a command or a name.
    """

    def whole(figure: re.Match[str]) -> str:
        breaks = "-" in figure[0] or "%" in figure[0]
        return f'<span class="whole">{figure[0]}</span>' if breaks else figure[0]

    # What is markup stays markup, and is not escaped again.
    return Markup(_FIGURE.sub(whole, str(escape(text))))


def _variables(colours: Mapping[str, str]) -> Markup:
    return Markup(" ".join(f"--{role}: {colour};" for role, colour in colours.items()))


def draw(run: Results) -> tuple[Figure, ...]:
    """Draws every figure that the run has values for, in the report's order."""
    with rc_context(canvas.STYLE):
        return tuple(
            replace(figure, svg=canvas.svg(drawing, figure))
            for figure, drawing in _figures(run)
            if drawing
        )


def _figures(run: Results) -> _Drawings:
    """The figures, the answer's first: by class at one load, or over several loads."""
    summary, points = run.summary, run.config.load.points
    several = len(points) > 1
    if several:
        ratios = over_loads.paint_ratios(summary, over_loads.of_classes(summary))
        yield Figure("answer", "Speed of a request over the load", f"{_RATIOS} {_HOLLOW}"), ratios
        for case in summary.cases:
            yield from _over_loads(run.summary, case)
    else:
        gains = at_load.paint_gains(summary)
        yield Figure("answer", f"Speed of a request at {points[0]}", _RATIOS), gains
    cases = wording.listed([case.name for case in summary.cases if case.headline])
    caption = (
        f"The article's Figures 3 to 5, for {cases}. A dot is a request; a line joins the medians "
        "of the rounds. Speculation does not change the prefill, so the curves of TTFT should lie "
        "together; none should drift."
    )
    for point in points:
        name = f"over-time-{point.name}" if several else "over-time"
        latencies = at_load.paint_over_time(run, point)
        yield Figure(name, f"Latency over the run at {point}", caption, load=point.name), latencies


def _over_loads(summary: Summary, case: Case) -> _Drawings:
    """Draws a test case that ran at several load points."""
    name = case.name
    caption = (
        f"{_RATIOS} A band is the 95 % interval of the load at which it turns, a cross the "
        f"estimate. Decoding, by the time per output token, explains the speed. {_HOLLOW}"
    )
    ratios = over_loads.paint_ratios(summary, over_loads.of_case(case))
    yield Figure(f"ratios-{name}", "Speed-up over the load", caption, name), ratios
    dotted = " Dotted: the objective, which is for p90." if summary.objectives else ""
    caption = f"The medians, and p90 dashed.{dotted}"
    latency = over_loads.paint_latency(summary, case)
    yield Figure(f"latency-{name}", "Latency over the load", caption, name), latency
    caption = (
        "Each point is a load point, with its requests at once, or a second (/s, dashed); at a "
        "rate, no more can come together than is asked for. To the right one request is decoded "
        "faster; further up the same hardware does more, so a token costs less."
    )
    caption += " Hollow: not every objective is kept." if summary.objectives else ""
    pareto = over_loads.paint_pareto(summary, case)
    yield Figure(f"pareto-{name}", "Throughput against decoding speed", caption, name), pareto
