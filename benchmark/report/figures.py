"""The report's figures: the article's Figures 3 to 5, and what they leave open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from benchmark import metrics, wording
from benchmark.report.plots import canvas, over_time, per_case, per_step
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


def draw(run: Results) -> tuple[Drawing, ...]:
    """Every figure, in the order of the report."""
    with canvas.style():
        return tuple(_drawing(*figure) for figure in _catalogue(run))


def _drawing(name: str, title: str, caption: str, paint: Callable[[], Figure]) -> Drawing:
    try:
        figure = paint()
    except canvas.NothingToDraw as reason:
        return Drawing(name, title, caption, missing=str(reason))
    svg = canvas.to_svg(figure, name, f"{title}. {caption}")
    return Drawing(name, title, caption, svg, canvas.to_png(figure, title))


def _catalogue(run: Results) -> tuple[tuple[str, str, str, Callable[[], Figure]], ...]:
    load = f"at concurrency {run.config.load.concurrency}"
    headline = " and ".join(case.name for case in run.summary.cases if case.headline)
    return (
        (
            "end-to-end",
            f"End-to-end latency {load}",
            f"The article's Figure 3, of {headline}. A dot is a request, a line joins the medians "
            "of its waves.",
            lambda: over_time.paint(run, metrics.end_to_end, 1, "end-to-end latency, s"),
        ),
        (
            "inter-token",
            f"Inter-token latency {load}",
            f"The article's Figure 4, of {headline}, with the true time per output token: every "
            "token counted.",
            lambda: over_time.paint(
                run, metrics.time_per_output_token, 1000, "time per output token, ms"
            ),
        ),
        (
            "ttft",
            f"Time to first token {load}",
            f"The article's Figure 5, of {headline}. Speculation leaves the prefill alone: the "
            "curves should lie together.",
            lambda: over_time.paint(run, metrics.ttft, 1000, "time to first token, ms"),
        ),
        (
            "tokens-per-step",
            "Tokens per decoding step of SD",
            f"Of {headline}. Base makes one token a step; each further one here is an accepted "
            "draft.",
            lambda: per_step.paint(run),
        ),
        (
            "llmperf",
            "Inter-token latency: the truth and llmperf",
            f"Medians, llmperf's {run.published.origin}. Arrows lead from Base to SD. llmperf "
            "divides by chunks, and a chunk of SD carries several tokens: in bold, where it calls "
            "SD slower though it is not.",
            lambda: per_case.paint_llmperf(run),
        ),
        (
            "speed-up",
            f"Speed-up {load}",
            "Ratios of medians with 95 % bootstrap intervals, on a logarithmic scale.",
            lambda: per_case.paint_speedups(run),
        ),
        (
            "throughput",
            f"Output throughput {load}",
            "All requests together, over the time in which any was in flight, with the end of each "
            "round, when fewer are, and with 95 % bootstrap intervals. Higher is better.",
            lambda: per_case.paint_pairs(
                run,
                lambda arm: (arm.tokens_per_second, arm.tokens_per_second_interval),
                wording.significant,
                "output tokens per second",
            ),
        ),
        (
            "cost",
            f"Cost of a million output tokens {load}",
            f"Of {run.config.cost.denominator}, at the throughput of all requests together, with "
            "95 % bootstrap intervals. Lower is better.",
            lambda: per_case.paint_pairs(
                run,
                lambda arm: (
                    arm.usd_per_million_output_tokens,
                    arm.usd_per_million_output_tokens_interval,
                ),
                wording.dollars,
                "USD per million output tokens",
            ),
        ),
    )
