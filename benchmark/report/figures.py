"""The report's figures: the article's Figures 3 to 5, and more that explain them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from benchmark import metrics, wording
from benchmark.report.plots import (
    against_llmperf,
    canvas,
    over_rounds,
    over_time,
    per_case,
    per_step,
)
from benchmark.report.results import Results


@dataclass(frozen=True)
class Drawing:
    """One figure. ``svg`` and ``png`` are empty where ``missing`` says why it is not drawn."""

    name: str
    title: str
    caption: str
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


def draw(run: Results) -> tuple[Drawing, ...]:
    """Every figure, in the order of the report."""
    with canvas.style():
        return tuple(_drawing(figure) for figure in _catalogue(run))


def _drawing(shown: _Figure) -> Drawing:
    try:
        figure = shown.paint()
    except canvas.NothingToDraw as reason:
        return Drawing(shown.name, shown.title, shown.caption, missing=str(reason))
    svg = canvas.to_svg(figure, shown.name, f"{shown.title}. {shown.caption}")
    return Drawing(shown.name, shown.title, shown.caption, svg, canvas.to_png(figure, shown.title))


def _catalogue(run: Results) -> Iterator[_Figure]:
    load = f"at concurrency {run.config.load.concurrency}"
    headline = " and ".join(case.name for case in run.summary.cases if case.headline)
    yield _Figure(
        "end-to-end",
        f"End-to-end latency {load}",
        f"The article's Figure 3, for {headline}. A dot is a request; a line joins the medians "
        "of its waves.",
        lambda: over_time.paint(run, metrics.END_TO_END_LATENCY),
    )
    yield _Figure(
        "inter-token",
        f"Inter-token latency {load}",
        f"The article's Figure 4, for {headline}, with the true time per output token, which "
        "counts every token.",
        lambda: over_time.paint(run, metrics.TIME_PER_OUTPUT_TOKEN),
    )
    yield _Figure(
        "ttft",
        f"Time to first token {load}",
        f"The article's Figure 5, for {headline}. Speculation does not change the prefill, so the "
        "curves should lie together.",
        lambda: over_time.paint(run, metrics.TTFT),
    )
    if any(case.compared for case in run.summary.cases):
        yield from _comparisons(run, load, headline)
    yield _Figure(
        "throughput",
        f"Output throughput {load}",
        "All requests together, while as many are in flight as the load has. With 95 % intervals. "
        "Higher is better.",
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
            f"Cost of a million output tokens {load}",
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
    yield _Figure(
        "drift",
        "Drift over the run",
        "A dot is a round, over all test cases, against the mean of the run. Beside each name "
        "stands the change from the first round to the last, by a straight line. Bold, with a "
        "full line: more than chance.",
        lambda: over_rounds.paint(run),
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
    yield _Figure(
        "llmperf",
        "Inter-token latency: the truth and llmperf",
        f"Medians, llmperf's {run.published.origin}. Arrows lead from the baseline to the variant. "
        "llmperf divides by chunks, and one chunk can carry several tokens. Bold: llmperf calls a "
        "variant slower that is not.",
        lambda: against_llmperf.paint(run),
    )
    yield _Figure(
        "speed-up",
        f"Speed-up {load}",
        "With 95 % intervals, on a logarithmic scale.",
        lambda: per_case.paint_speedups(run),
    )
