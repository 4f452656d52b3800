"""Which of the seven figures a run has, and what each says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from matplotlib.figure import Figure as Drawing

from spectap import wording
from spectap.analysis.advice.advice import Advice
from spectap.analysis.summary import Case
from spectap.load_points import LoadPoint
from spectap.report import phrases
from spectap.report.plots import at_load, canvas, over_loads
from spectap.report.results import Results
from spectap.report.view import Figure

_Drawings = Iterator[tuple[Figure, Drawing | None]]

_RATIOS: Final = (
    "How many times better than the baseline, with 95 % intervals, on logarithmic scales; above "
    "the line at 1 is better. "
)
_HOLLOW: Final = "Hollow: a queue is measured there, or requests were not sent at their times."


def draw(run: Results) -> tuple[Figure, ...]:
    """Every figure for which the run has what it shows, in the order of the report."""
    with canvas.style():
        return tuple(
            replace(figure, svg=canvas.svg(drawing, figure))
            for figure, drawing in _drawings(run)
            if drawing
        )


def _drawings(run: Results) -> _Drawings:
    points = run.config.load.points
    if run.advice:
        yield _drafts(run.advice), at_load.paint_drafts(run.advice)
    if len(points) == 1:
        yield from _at(run, points[0])
        return
    for case in run.summary.cases:
        for figure, drawing in _over_loads(run, case):
            yield replace(figure, name=f"{figure.name}-{case.name}", case=case.name), drawing
    for point in points:
        for figure, drawing in _at(run.at(point), point):
            yield replace(figure, name=f"{figure.name}-{point.name}", load=point.name), drawing


def _drafts(advice: Advice) -> Figure:
    caption = (
        "Of the steps in which all drafts before it were accepted, with 95 % intervals. Left out: "
        "what too few steps reached. Hollow: too few rounds for an interval."
    )
    title = "Drafts accepted, by position"
    if len({prospect.window for prospect in advice.prospects}) > 1:
        load = at_load.first_load(advice)
        suffix = f" at {phrases.load_points([load])}" if load else ""
        title += f", and the speed-up over the window{suffix}"
        caption += (
            " To the right, after the article's Figure 1: points were measured, with 95 % "
            "intervals; the line between them and its band are predicted. Ringed is the best, "
            "measured or not."
        )
    return Figure("acceptance", title, caption, advice=True)


def _over_loads(run: Results, case: Case) -> _Drawings:
    """What is drawn of a test case that ran at several load points."""
    summary = run.summary
    dotted = " Dotted: the objective, which is for p90." if summary.objectives else ""
    hollow = " Hollow: not every objective is kept." if summary.objectives else ""
    if case.compared:
        speeds = (over_loads.SPEED, over_loads.TOGETHER)
        band = "A band is the 95 % interval of the load at which it turns, a cross the estimate."
        yield (
            Figure("request-speed", "Speed-up over the load", f"{_RATIOS}{band} {_HOLLOW}"),
            over_loads.paint_ratios(summary, case, speeds),
        )
        yield (
            Figure(
                "decoding-speed",
                "Speed of decoding over the load",
                f"{_RATIOS}By the time per output token, without the first token and the queue: "
                f"it explains the speed of a request. {_HOLLOW}",
            ),
            over_loads.paint_ratios(summary, case, (over_loads.DECODING,)),
        )
    yield (
        Figure("latency", "Latency over the load", f"The medians, and p90 dashed.{dotted}"),
        over_loads.paint_latency(summary, case),
    )
    yield (
        Figure(
            "pareto",
            "Throughput against decoding speed",
            "Each point is a load point, with its requests at once, or a second (/s, dashed); at a "
            "rate, no more can come together than is asked for. To the right one request is "
            "decoded faster; further up the same hardware does more, so a token costs less."
            f"{hollow}",
        ),
        over_loads.paint_pareto(summary, case),
    )


def _at(run: Results, point: LoadPoint) -> _Drawings:
    """What is drawn of one load point."""
    load = phrases.load_points([point])
    if run.summary.compares:
        yield (
            Figure("gains", f"Speed-up at {load}", "With 95 % intervals, on a logarithmic scale."),
            at_load.paint_gains(run.summary),
        )
    cases = wording.listed([case.name for case in run.summary.cases if case.headline])
    yield (
        Figure(
            "over-time",
            f"Latency over the run at {load}",
            f"The article's Figures 3 to 5, for {cases}. A dot is a request; a line joins the "
            "medians of the rounds. Speculation does not change the prefill, so the curves of TTFT "
            "should lie together; none should drift.",
        ),
        at_load.paint_over_time(run),
    )
