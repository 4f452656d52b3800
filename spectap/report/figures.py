"""Which of the seven figures a run has, and what each says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from matplotlib.figure import Figure as Canvas

from spectap import wording
from spectap.analysis.advice.advice import Advice
from spectap.analysis.summary import Case
from spectap.load_points import LoadPoint
from spectap.report import headline, phrases
from spectap.report.plots import canvas, drafts, gains, latency, over_time, pareto, speeds
from spectap.report.results import Results
from spectap.report.view import Figure

_Paint = Callable[[], Canvas]


def draw(run: Results) -> tuple[Figure, ...]:
    """Every figure, in the order of the report."""
    with canvas.style():
        return tuple(_drawn(figure, paint) for figure, paint in _catalogue(run))


def _drawn(figure: Figure, paint: _Paint) -> Figure:
    try:
        drawing = paint()
    except canvas.NothingToDraw as reason:
        return replace(figure, missing=str(reason))
    svg = canvas.to_svg(drawing, figure.name, f"{figure.title}. {figure.caption}")
    return replace(figure, svg=svg, png=canvas.to_png(drawing, figure.title))


def _catalogue(run: Results) -> Iterator[tuple[Figure, _Paint]]:
    points = run.config.load.points
    if run.advice:
        yield _drafts(run.advice), partial(drafts.paint, run.advice)
    if len(points) == 1:
        yield from _at(run, points[0])
        return
    for case in run.summary.cases:
        for figure, paint in _over_loads(run, case):
            yield replace(figure, name=f"{figure.name}-{case.name}", case=case.name), paint
    for point in points:
        for figure, paint in _at(run.at(point), point):
            yield replace(figure, name=f"{figure.name}-{point.name}", load=point.name), paint


def _drafts(advice: Advice) -> Figure:
    caption = (
        "Of the steps in which all drafts before it were accepted, with 95 % intervals. Left out: "
        "what too few steps reached. Hollow: too few rounds for an interval."
    )
    title = "Drafts accepted, by position"
    if len({prospect.window for prospect in advice.prospects}) > 1:
        load = drafts.first_load(advice)
        where = f" at {phrases.load_points([load])}" if load else ""
        title += f", and the speed-up over the window{where}"
        caption += (
            " To the right, after the article's Figure 1: points were measured, with 95 % "
            "intervals; the line between them and its band are predicted. Ringed is the best, "
            "measured or not."
        )
    return Figure("acceptance", title, caption, advice=True)


def _over_loads(run: Results, case: Case) -> Iterator[tuple[Figure, _Paint]]:
    """What is drawn of a test case that ran at several load points."""
    if case.compared:
        ratios = "How many times better than the baseline, with 95 % intervals, on logarithmic "
        ratios += "scales; above the line at 1 is better. "
        hollow = "Hollow: a queue is measured there, or requests were not sent at their times."
        yield (
            Figure(
                "request-speed",
                _speed_title(case),
                f"{ratios}A band is the 95 % interval of the load at which it turns, a cross the "
                f"estimate. {hollow}",
            ),
            partial(speeds.paint, run.summary, case, (speeds.SPEED, speeds.TOGETHER)),
        )
        yield (
            Figure(
                "decoding-speed",
                "Speed of decoding over the load",
                f"{ratios}By the time per output token, without the first token and the queue: "
                f"it explains the speed of a request. {hollow}",
            ),
            partial(speeds.paint, run.summary, case, (speeds.DECODING,)),
        )
    yield (
        Figure(
            "latency",
            "Latency over the load",
            "The medians, and p90 dashed."
            + (" Dotted: the objective, which is for p90." if run.summary.objectives else ""),
        ),
        partial(latency.paint, run.summary, case),
    )
    yield (
        Figure(
            "pareto",
            "Throughput against decoding speed",
            "Each point is a load point, with its requests at once, or a second (/s, dashed); at a "
            "rate, no more can come together than is asked for. To the right one request is "
            "decoded faster; further up the same hardware does more, so a token costs less."
            + (" Hollow: not every objective is kept." if run.summary.objectives else ""),
        ),
        partial(pareto.paint, run.summary, case),
    )


def _speed_title(case: Case) -> str:
    """What the closed loops say of the one variant there is."""
    variants = {cell.variant for cell, _ in case.compared}
    ladder = headline.leading(case, variants.pop()) if len(variants) == 1 else None
    if ladder is None:
        return "Speed-up over the load"
    return f"{ladder.variant} {headline.over_loads(ladder, headline.SPEED)}"


def _at(run: Results, point: LoadPoint) -> Iterator[tuple[Figure, _Paint]]:
    """What is drawn of one load point."""
    load = phrases.load_points([point])
    if run.summary.compares:
        yield (
            Figure("gains", f"Speed-up at {load}", "With 95 % intervals, on a logarithmic scale."),
            partial(gains.paint, run.summary),
        )
    cases = wording.listed([case.name for case in run.summary.cases if case.headline])
    joined = f"{over_time.wave(point)} requests in a row" if point.open else "its waves"
    dots = f"A dot is a request; a line joins the medians of {joined}."
    yield (
        Figure(
            "over-time",
            f"Latency over the run at {load}",
            f"The article's Figures 3 to 5, for {cases}. {dots} Speculation does not change the "
            "prefill, so the curves of TTFT should lie together; none should drift.",
        ),
        partial(over_time.paint, run),
    )
