"""How times per output token and speed-ups drifted from the first round to the last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from spectap import palette, wording
from spectap.analysis.compared.drift import FEWEST
from spectap.analysis.summary import Drift
from spectap.palette import Colour
from spectap.report.plots import canvas
from spectap.report.results import Results

_PANEL: Final = 145  # points of height
_LINE: Final = 18  # points of height for the name of a line
_SMALLEST: Final = 5  # percent above and below the mean, so that little looks little


def paint(run: Results) -> Figure:
    """Each round by the mean of the run, with the line fitted to them. Raises ``NothingToDraw``."""
    times = [drift for drift in run.summary.drifts if drift.baseline is None]
    speedups = [drift for drift in run.summary.drifts if drift.baseline is not None]
    panels = [panel for panel in (times, speedups) if panel]
    if not panels:
        raise canvas.NothingToDraw(
            f"fewer than {FEWEST} rounds have a time per output token of every test case"
        )
    colours = palette.of(run.summary.variants)
    longest = max(map(len, panels))
    figure = canvas.figure(len(panels) * max(_PANEL, _LINE * longest) + 30)
    every = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    found = [abs(_percent(by)) for drift in run.summary.drifts for _, by in drift.rounds]
    reach = 1.15 * max(_SMALLEST, *found)
    every[0].set_ylim(-reach, reach)
    for axes, panel in zip(every, panels, strict=True):
        _paint_panel(axes, panel, colours, gap=2 * reach / max(7, longest))
    every[-1].set_xlabel("round")
    every[-1].xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    return figure


def _paint_panel(
    axes: Axes, drifts: Sequence[Drift], colours: dict[str, Colour], gap: float
) -> None:
    ends = []
    for drift in drifts:
        colour = colours[drift.variant]
        numbers = [number for number, _ in drift.rounds]
        axes.plot(
            numbers,
            [_percent(by) for _, by in drift.rounds],
            colour.marker,
            color=colour.light,
            markersize=4.5,
            alpha=0.55,
        )
        line = _line(drift, numbers)
        axes.plot(
            (numbers[0], numbers[-1]),
            line,
            color=colour.light,
            linewidth=2.4 if drift.found else 1,
            linestyle="-" if drift.found else (0, (4, 3)),
        )
        ends.append(line[1])
    for drift, height in zip(drifts, canvas.apart(ends, gap), strict=True):
        axes.annotate(
            f"{wording.short(drift.variant)} {wording.change(drift.change.point)}",
            (1.02, height),
            xycoords=("axes fraction", "data"),
            va="center",
            color=colours[drift.variant].light,
            weight="bold" if drift.found else "normal",
            annotation_clip=False,
        )
    axes.axhline(0, color=canvas.MUTED, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.grid(visible=False, axis="x")
    of = "speed-up" if drifts[0].baseline else "time per output token"
    axes.set_title(of, loc="left", size=canvas.FONT_SIZE, color=canvas.MUTED)


def _line(drift: Drift, numbers: Sequence[int]) -> tuple[float, float]:
    """The ends of the fitted line, in percent; it goes through the mean of the rounds."""
    slope = math.log(drift.change.point) / (numbers[-1] - numbers[0])
    middle = sum(numbers) / len(numbers)
    first, last = (math.exp(slope * (end - middle)) for end in (numbers[0], numbers[-1]))
    return _percent(first), _percent(last)


def _tick(percent: float, _: int | None = None) -> str:
    return f"{percent:+.0f} %".replace("-", "\N{MINUS SIGN}") if percent else "mean"


def _percent(ratio: float) -> float:
    return 100 * (ratio - 1)
