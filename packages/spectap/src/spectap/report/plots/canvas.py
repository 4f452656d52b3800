"""The look of every figure, and its conversion into an SVG that follows the page's scheme.

Figures are drawn in the colours of a light page. In the SVG each colour becomes a CSS variable of
the report's style sheet, so one drawing serves a light and a dark page.
"""

import html
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from spectap import wording
from spectap.analysis.estimate import Interval
from spectap.report import palette
from spectap.report.palette import Colour
from spectap.report.view import Figure

_PAGE: Final = ("paper", "ink", "muted", "rule")

LIGHT: Final = {
    **dict(zip(_PAGE, (palette.PAPER[0], "#1f2328", "#5b636c", "#d9dee4"), strict=True)),
    **{colour.role: colour.light for colour in palette.ALL},
}
"""Every colour of a light page, by its name in the style sheet. Text passes 4.5:1."""

DARK: Final = {
    **dict(zip(_PAGE, (palette.PAPER[1], "#e8ebef", "#9da7b1", "#343c46"), strict=True)),
    **{colour.role: colour.dark for colour in palette.ALL},
}

PAPER, INK, MUTED, RULE = (LIGHT[role] for role in _PAGE)

WIDTH: Final = 480  # points; one point is ratios as about one CSS pixel
FONT_SIZE: Final = 11.5

BAND: Final = 0.13  # opacity of an interval's area

_MARGINS: Final = 70  # points for the axis and the legend
_IN_A_ROW: Final = 3  # names of a legend
_TICKS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10)
_CLOSE_TICKS: Final = (0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5)
STYLE: Final[Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": MUTED,
    "axes.labelsize": FONT_SIZE,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": FONT_SIZE,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "benchmark",  # the same run gives the same bytes
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign is a price here
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.color": RULE,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0,
}

_FONTS: Final = re.compile(r"'DejaVu Sans'[^;\"]*")
_HEAD: Final = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_OPENING: Final = re.compile(r"<svg [^>]*?(viewBox=\S+ \S+ \S+ \S+ xmlns=)")
_IDENTIFIER: Final = re.compile(r'(\bid="|href="#|url\(#)')


def panels(rows: int, columns: int, height: float, **shared: Any) -> tuple[Drawing, Any]:
    """A figure as wide as a column, and its grid of panels, each ``height`` points high."""
    size = WIDTH / 72, (_MARGINS + height * rows) / 72
    drawing = Drawing(figsize=size, layout="constrained")
    return drawing, drawing.subplots(rows, columns, squeeze=False, **shared)


def svg(drawing: Drawing, figure: Figure) -> str:
    """An ``<svg>`` element for an HTML page; the name begins each of its identifiers."""
    buffer = io.StringIO()
    drawing.savefig(buffer, format="svg", transparent=True)
    text = buffer.getvalue()
    text = _HEAD.sub("", text[text.index("<svg") :])
    text = _FONTS.sub("system-ui, sans-serif", text)
    text = _IDENTIFIER.sub(rf"\g<1>{figure.name}-", text)
    for role, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{role}, {colour})")
    description = html.escape(f"{figure.title}. {figure.caption}")
    opening = f'<svg role="img" aria-label="{description}"'
    text = _OPENING.sub(lambda match: f"{opening} {match[1]}", text, count=1)
    return text.replace("xlink:href", "href")


def legend(drawing: Drawing, colours: Mapping[str, Colour], **styles: Any) -> None:
    """Names the colours below all panels.

    ``styles``: names of line styles, each with matplotlib's code for it.
    """
    named = [
        Line2D([], [], color=of.light, marker=of.marker, markersize=6, label=wording.short(name))
        for name, of in colours.items()
    ]
    named += [
        Line2D([], [], color=MUTED, linestyle=style, label=name.replace("_", " "))
        for name, style in styles.items()
    ]
    drawing.legend(
        handles=named,
        loc="outside lower left",
        ncols=_IN_A_ROW,
        handlelength=1.6,
        labelcolor="linecolor",
    )


def paint_point(axes: Axes, x: float, y: float, colour: Colour, *, hollow: bool = False) -> None:
    face = PAPER if hollow else colour.light
    axes.plot(x, y, colour.marker, color=colour.light, mfc=face, markersize=6, linestyle="none")


def paint_curve(
    axes: Axes,
    at: Sequence[float],
    intervals: Sequence[Interval],
    colour: Colour,
    hollow: Sequence[bool],
) -> None:
    """Points with their intervals upright, joined by a line. Some points are ``hollow``."""
    axes.plot(at, [ratio.point for ratio in intervals], color=colour.light, linewidth=1.6)
    lows, highs = ([getattr(ratio, end) for ratio in intervals] for end in ("low", "high"))
    axes.vlines(at, lows, highs, color=colour.light, linewidth=2)
    for x, ratio, is_hollow in zip(at, intervals, hollow, strict=True):
        paint_point(axes, x, ratio.point, colour, hollow=is_hollow)


def scale_ratios(axes: Axes, ratios: Sequence[Interval], *, along: Literal["x", "y"] = "x") -> None:
    """A logarithmic scale for ratios with a place for 1, whose ticks read ``1.5x``."""
    low = min([0.8, *(interval.low / 1.1 for interval in ratios)])
    high = max([1.25, *(interval.high * 1.1 for interval in ratios)])
    axes.set(**{f"{along}scale": "log", f"{along}lim": (low, high)})
    axis = getattr(axes, f"{along}axis")
    axis.set_major_locator(FixedLocator(_CLOSE_TICKS if high / low < 2 else _TICKS))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}x"))
