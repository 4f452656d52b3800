"""The look of every figure, and how one is turned into a PNG and an SVG that follows the page.

Colours are those of a light page. In the SVG each becomes a CSS variable of the report's style
sheet, so one drawing serves a light and a dark page.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from spectap import palette

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

WIDTH: Final = 480  # points; one point is shown as about one CSS pixel
FONT_SIZE: Final = 11.5
SMALL: Final = 10.5

_PNG_DPI: Final = 160
_CHARACTER: Final = 6.2  # points of width of a small label's
_NEAR: Final = 7  # points from a point to the edge of its label
# To the right and up, in the order in which they are tried.
_BESIDE: Final = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
_STYLE: Final[dict[str, Any]] = {
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


class NothingToDraw(Exception):
    """The run lacks what a figure shows. The text says what is missing."""


def style() -> AbstractContextManager[None]:
    """The context figures are drawn in."""
    return mpl.rc_context(_STYLE)


def figure(height: float) -> Figure:
    """An empty figure as wide as a column, ``height`` points high."""
    return Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")


def to_svg(drawing: Figure, name: str, description: str) -> str:
    """An ``<svg>`` element for an HTML page; ``name`` keeps its identifiers apart from others'."""
    buffer = io.StringIO()
    drawing.savefig(buffer, format="svg", transparent=True)
    text = buffer.getvalue()
    text = _HEAD.sub("", text[text.index("<svg") :])
    text = _FONTS.sub("system-ui, sans-serif", text)
    text = _IDENTIFIER.sub(rf"\g<1>{name}-", text)
    for role, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{role}, {colour})")
    opening = f'<svg role="img" aria-label="{html.escape(description)}"'
    text = _OPENING.sub(lambda found: f"{opening} {found[1]}", text, count=1)
    return text.replace("xlink:href", "href")


def to_png(drawing: Figure, title: str) -> bytes:
    """The same as a PNG on white, with its title: a PNG has no page around it."""
    drawing.suptitle(title, x=0.012, ha="left", weight="bold", size=FONT_SIZE + 1)
    buffer = io.BytesIO()
    drawing.savefig(
        buffer, format="png", dpi=_PNG_DPI, facecolor=PAPER, metadata={"Software": None}
    )
    return buffer.getvalue()


def label_points(
    drawing: Figure, axes: Axes, points: Sequence[tuple[float, float, str, str]]
) -> None:
    """Writes beside each point: its place, its text, its colour.

    A label stands where it covers no point and no other label, at the first such place of
    ``_BESIDE``; where there is none, it is left out. The limits of the axes must be set.
    """
    drawing.draw_without_rendering()
    scale = drawing.dpi / 72
    ends = [(x, y) for x, y, *_ in points]
    places = [tuple(axes.transData.transform(end) / scale) for end in ends]
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in places]
    for (x, y), (*_, text, colour), point in zip(places, points, ends, strict=True):
        width, height = _CHARACTER * len(text), SMALL
        boxes = [
            Bbox.from_bounds(
                x + _NEAR * right - width * (1 - right) / 2,
                y + _NEAR * up - height * (1 - up) / 2,
                width,
                height,
            )
            for right, up in _BESIDE
        ]
        free = (box for box in boxes if not any(box.overlaps(other) for other in taken))
        if (box := next(free, None)) is None:
            continue
        taken.append(box)
        axes.annotate(
            text,
            point,
            ((box.x0 + box.x1) / 2 - x, (box.y0 + box.y1) / 2 - y),
            textcoords="offset points",
            ha="center",
            va="center_baseline",
            color=colour,
            size=SMALL,
        )


def apart(positions: list[float], gap: float) -> list[float]:
    """The positions, moved apart by as little as ``gap`` between neighbours needs; order kept."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    groups: list[list[int]] = []
    for index in order:
        groups.append([index])
        while len(groups) > 1 and _overlap(groups[-2], groups[-1], positions, gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = list(positions)
    for group in groups:
        for place, index in enumerate(group):
            moved[index] = _first(group, positions, gap) + place * gap
    return moved


def _first(group: list[int], positions: list[float], gap: float) -> float:
    middle = sum(positions[index] for index in group) / len(group)
    return middle - gap * (len(group) - 1) / 2


def _overlap(lower: list[int], upper: list[int], positions: list[float], gap: float) -> bool:
    end = _first(lower, positions, gap) + gap * len(lower)
    return _first(upper, positions, gap) < end
