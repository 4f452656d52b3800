"""The report's figures: the article's Figures 3 to 5, and more that explain them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from matplotlib.figure import Figure

from spectap import metrics, wording
from spectap.analysis.advice.advice import Advice
from spectap.analysis.summary import Case
from spectap.load_points import LoadPoint
from spectap.report import ladders, loads
from spectap.report.advice import words
from spectap.report.plots import (
    against_llmperf,
    canvas,
    over_load,
    over_positions,
    over_time,
    over_windows,
    pareto,
    per_case,
    per_step,
    predicted,
)
from spectap.report.results import Results

# What the tokens a second of all requests together are, in a closed loop and in an open one.
_TOGETHER: Final = {
    False: "while as many are in flight as the load has",
    True: "in the time in which a round comes at its rate and the last are answered",
}


@dataclass(frozen=True)
class Drawing:
    """One figure. ``svg`` and ``png`` are empty where ``missing`` says why it is not drawn."""

    name: str
    title: str
    caption: str
    case: str = ""
    """The test case it belongs to; empty where it shows several."""
    load: str = ""
    """The name of the load point it belongs to; empty where it shows all there are."""
    advice: bool = False
    """Whether it shows what the advice rests on."""
    svg: str = ""
    png: bytes = b""
    missing: str = ""


@dataclass(frozen=True)
class _Figure:
    """What one figure is called, what it says, and how it is painted."""

    name: str
    title: str
    caption: str
    paint: Callable[[], Figure]
    case: str = ""
    load: str = ""
    advice: bool = False


def draw(run: Results) -> tuple[Drawing, ...]:
    """Every figure, in the order of the report."""
    with canvas.style():
        return tuple(_drawing(figure) for figure in _catalogue(run))


def _drawing(shown: _Figure) -> Drawing:
    drawing = Drawing(
        *(shown.name, shown.title, shown.caption, shown.case, shown.load),
        advice=shown.advice,
    )
    try:
        figure = shown.paint()
    except canvas.NothingToDraw as reason:
        return replace(drawing, missing=str(reason))
    svg = canvas.to_svg(figure, shown.name, f"{shown.title}. {shown.caption}")
    return replace(drawing, svg=svg, png=canvas.to_png(figure, shown.title))


def _catalogue(run: Results) -> Iterator[_Figure]:
    points = run.config.load.points
    if run.advice:
        for figure in _advised(run.advice):
            yield replace(figure, advice=True)
    if len(points) == 1:
        yield from _at(run, points[0])
    else:
        for case in run.summary.cases:
            for figure in _over_loads(run, case):
                yield replace(figure, name=f"{figure.name}-{case.name}", case=case.name)
        for point in points:
            for figure in _at(run.at(point), point):
                yield replace(figure, name=f"{figure.name}-{point.name}", load=point.name)


def _advised(advice: Advice) -> Iterator[_Figure]:
    """What shows which draft and which window to take."""
    if len({one.window for one in advice.prospects}) > 1:
        shown = words.some_loads(advice)
        for load in shown:
            yield _Figure(
                f"windows-{load.name}" if load and len(shown) > 1 else "windows",
                f"Speed-up over the window {words.at(load)}".rstrip(),
                "After the article's Figure 1. Points were measured, with 95 % intervals; the line "
                "between them and its band are predicted. Ringed is the best, measured or not.",
                partial(over_windows.paint, advice, load),
            )
    yield _accepted(advice, "over all windows and loads")
    if errors := words.errors(advice):
        yield _Figure(
            "predicted",
            "Speed-ups predicted and measured",
            f"Each measured window as predicted from the others of its line alone, with 95 % "
            f"intervals. On the line both are the same. {errors}",
            lambda: predicted.paint(advice),
        )


def _accepted(advice: Advice, of: str) -> _Figure:
    return _Figure(
        "acceptance",
        "Drafts accepted, by position",
        f"Of the steps in which all drafts before it were accepted, {of}, with 95 % intervals. "
        "Left out: what too few steps reached. Hollow: too few rounds for an interval.",
        lambda: over_positions.paint(advice),
    )


def _over_loads(run: Results, case: Case) -> Iterator[_Figure]:
    """What is drawn of a test case that ran at several load points."""
    if case.compared:
        yield _Figure(
            "ladder",
            _ladder_title(case),
            "How many times better than the baseline, with 95 % intervals, on logarithmic scales; "
            "above the line at 1 is better. A band is the 95 % interval of the load at which it "
            "turns, a cross the estimate. Hollow: a queue is measured there, or requests were not "
            "sent at their times.",
            partial(over_load.paint, run, case),
        )
    yield _Figure(
        "pareto",
        "Throughput against decoding speed",
        "Each point is a load point, with its requests at once, or a second (/s, dashed); at a "
        "rate, no more can come together than is asked for. To the right one request is decoded "
        "faster, further up the same hardware does more."
        + (" Hollow: not every objective is kept." if run.summary.objectives else ""),
        partial(pareto.paint, run, case),
    )


def _ladder_title(case: Case) -> str:
    """What the ladder of closed loops says of the one variant there is."""
    variants = {cell.variant for cell, _ in case.compared}
    leading = ladders.leading(case, variants.pop()) if len(variants) == 1 else None
    if leading is None:
        return "Speed-up over the load"
    return ladders.exact(leading, leading.speed, ladders.SPEED)


def _at(run: Results, point: LoadPoint) -> Iterator[_Figure]:
    """What is drawn of one load point."""
    load = loads.beside(point)
    headline = wording.listed([case.name for case in run.summary.cases if case.headline])
    joined = f"{over_time.wave(point)} requests in a row" if point.open else "its waves"
    dots = f"A dot is a request; a line joins the medians of {joined}."
    yield _Figure(
        "end-to-end",
        f"End-to-end latency{load}",
        f"The article's Figure 3, for {headline}. {dots}",
        lambda: over_time.paint(run, metrics.END_TO_END_LATENCY),
    )
    yield _Figure(
        "inter-token",
        f"Inter-token latency{load}",
        f"The article's Figure 4, for {headline}, with the true time per output token, which "
        "counts every token.",
        lambda: over_time.paint(run, metrics.TIME_PER_OUTPUT_TOKEN),
    )
    yield _Figure(
        "ttft",
        f"Time to first token{load}",
        f"The article's Figure 5, for {headline}. Speculation does not change the prefill, so the "
        "curves should lie together.",
        lambda: over_time.paint(run, metrics.TTFT),
    )
    if any(case.compared for case in run.summary.cases):
        yield from _comparisons(run, load, headline)
    yield _Figure(
        "throughput",
        f"Output throughput{load}",
        f"All requests together, {_TOGETHER[point.open]}. With 95 % intervals. Higher is better.",
        lambda: per_case.paint_values(
            run,
            lambda cell: (cell.tokens_per_second, cell.tokens_per_second_interval),
            wording.significant,
            "output tokens per second",
        ),
    )
    if run.config.cost is not None:
        yield _Figure(
            "cost",
            f"Cost of a million output tokens{load}",
            f"For {run.config.cost.denominator}, at the throughput of all requests together, with "
            "95 % intervals. Lower is better.",
            lambda: per_case.paint_values(
                run,
                lambda cell: (
                    cell.usd_per_million_output_tokens,
                    cell.usd_per_million_output_tokens_interval,
                ),
                wording.dollars,
                "USD per million output tokens",
            ),
        )


def _comparisons(run: Results, load: str, headline: str) -> Iterator[_Figure]:
    """What is drawn only where a variant is compared with a baseline."""
    yield _Figure(
        "tokens-per-step",
        "Tokens per decoding step",
        f"For {headline}. A baseline makes one token per step; each further one here is an "
        "accepted draft.",
        lambda: per_step.paint(run),
    )
    yield _against_llmperf(run)
    yield _Figure(
        "speed-up",
        f"Speed-up{load}",
        "With 95 % intervals, on a logarithmic scale.",
        lambda: per_case.paint_speedups(run),
    )


def _against_llmperf(run: Results) -> _Figure:
    return _Figure(
        "llmperf",
        "Inter-token latency: the truth and llmperf",
        f"Medians, llmperf's {run.published.origin}. Arrows lead from the baseline to the variant. "
        "llmperf divides by chunks, and one chunk can carry several tokens. Bold: llmperf calls a "
        "variant slower that is not.",
        lambda: against_llmperf.paint(run),
    )
