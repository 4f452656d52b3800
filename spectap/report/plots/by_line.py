"""What the figures of advice share: colours of lines, a panel for each class, one legend."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from spectap import palette, wording
from spectap.analysis.advice.advice import Advice
from spectap.palette import Colour
from spectap.report.plots import canvas

BASELINE: Final = "baseline"

_COLUMNS: Final = 2
_PANEL: Final = 190  # points of height
_MARGINS: Final = 60
_NAMES: Final = 3  # in a line of the legend


def colours(advice: Advice) -> dict[str, Colour]:
    """That of the baseline, as in all figures the first, and of each line."""
    return palette.of([BASELINE, *(line.name for line in advice.lines)])


def panels(classes: Iterable[str], x: str, y: str) -> tuple[Figure, list[tuple[str, Axes]]]:
    """A figure, and each class with its axes. All have one scale; ``x`` and ``y`` say of what."""
    names = list(classes)
    columns = min(_COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    figure = canvas.figure(_MARGINS + _PANEL * rows)
    every = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
    for number, (name, axes) in enumerate(zip(names, every, strict=False)):
        axes.set_title(wording.short(name), loc="left", size=canvas.FONT_SIZE)
        axes.grid(visible=False, axis="x")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(x if number + columns >= len(names) else "")
        axes.set_ylabel(y if number % columns == 0 else "")
    for axes in every[len(names) :]:
        axes.set_visible(False)
    return figure, list(zip(names, every, strict=False))


def legend(figure: Figure, shown: dict[str, Colour]) -> None:
    """Names the colours below all panels: above them stands a PNG's title."""
    handles = [
        Line2D(
            [],
            [],
            color=colour.light,
            marker="" if name == BASELINE else colour.marker,
            markersize=6,
            linestyle="--" if name == BASELINE else "-",
        )
        for name, colour in shown.items()
    ]
    names = [wording.short(name) for name in shown]
    found = figure.legend(
        handles=handles,
        labels=names,
        loc="outside lower left",
        ncols=_NAMES,
        handlelength=1.6,
    )
    for text, colour in zip(found.get_texts(), shown.values(), strict=True):
        text.set_color(colour.light)
