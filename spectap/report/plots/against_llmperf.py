"""llmperf's inter-token latency under the true time per output token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectap import metrics, palette, wording
from spectap.palette import Colour
from spectap.report.plots import canvas, per_case
from spectap.report.results import Results

_PAIR: Final = 40  # points of height for a true figure and llmperf's
_MARGINS: Final = 70

# A ratio up to here is called equal.
_APPRECIABLE: Final = 1.05


@dataclass(frozen=True)
class _Change:
    """Milliseconds per token of a baseline and of a variant that is compared with it."""

    baseline: float
    variant: float

    @property
    def ratio(self) -> float:
        """Above 1 where the variant is faster."""
        return self.baseline / self.variant

    @property
    def words(self) -> str:
        ratio = max(self.ratio, 1 / self.ratio)
        direction = "faster" if self.ratio > 1 else "slower"
        return f"{ratio:.1f}x {direction}" if ratio >= _APPRECIABLE else "equal"


@dataclass(frozen=True)
class _Line:
    """A comparison in one test case: what is true and what llmperf says."""

    label: str
    baseline: str
    variant: str
    true: _Change
    published: _Change

    @property
    def contradicted(self) -> bool:
        """Whether llmperf calls the variant slower though it is not."""
        return self.true.ratio > 1 / _APPRECIABLE > self.published.ratio


def paint(run: Results) -> Figure:
    """Each variant against its baseline, by both measures. Raises ``NothingToDraw``."""
    lines = list(_lines(run))
    if not lines:
        raise canvas.NothingToDraw("no case has both figures of a variant and its baseline")
    colours = palette.of(run.summary.variants)
    figure = canvas.figure(_MARGINS + _PAIR * len(lines))
    axes = figure.add_subplot()
    heights = [1.25 * number + level for number in range(len(lines)) for level in (0, 0.5)]
    labels = [label for line in lines for label in (f"{line.label} · true", "llmperf")]
    axes.set_ylim(max(heights) + 0.5, -0.6)
    axes.set_yticks(heights, labels, color=canvas.INK)
    axes.grid(visible=False, axis="y")
    for number, line in enumerate(lines):
        ends = colours[line.baseline], colours[line.variant]
        _paint_change(axes, 1.25 * number, line.true, ends, filled=True)
        _paint_change(axes, 1.25 * number + 0.5, line.published, ends, filled=False)
        _say_change(axes, 1.25 * number, line.true, bold=False)
        _say_change(axes, 1.25 * number + 0.5, line.published, bold=line.contradicted)
    changes = [change for line in lines for change in (line.true, line.published)]
    axes.set_xlim(0, 1.06 * max(max(change.baseline, change.variant) for change in changes))
    axes.set_xlabel(f"ms per token, medians (llmperf's {run.published.origin})")
    drawn = {name for line in lines for name in (line.baseline, line.variant)}
    per_case.legend(axes, {name: colours[name] for name in colours if name in drawn})
    return figure


def _lines(run: Results) -> Iterator[_Line]:
    for case in run.summary.cases:
        for cell, comparison in case.compared:
            names = (comparison.baseline, cell.variant)
            ends = [case.cell(name, cell.load) for name in names]
            true = [end.measure(metrics.TIME_PER_OUTPUT_TOKEN) for end in ends]
            published = [run.published.median(end) for end in ends]
            medians = [*(sample.p50 if sample else None for sample in true), *published]
            milliseconds = [1000 * median for median in medians if median]
            if len(milliseconds) == len(medians):
                label = wording.short(case.name)
                if len(case.compared) > 1:
                    label += f", {wording.short(cell.variant)}"
                yield _Line(label, *names, _Change(*milliseconds[:2]), _Change(*milliseconds[2:]))


def _paint_change(
    axes: Axes, height: float, change: _Change, ends: tuple[Colour, Colour], *, filled: bool
) -> None:
    if not 1 / _APPRECIABLE < change.ratio < _APPRECIABLE:
        axes.annotate(
            "",
            (change.variant, height),
            (change.baseline, height),
            arrowprops={"arrowstyle": "-|>", "color": canvas.MUTED, "shrinkA": 3, "shrinkB": 3},
        )
    for colour, end in zip(ends, (change.baseline, change.variant), strict=True):
        face = colour.light if filled else "none"
        axes.plot(end, height, colour.marker, color=colour.light, mfc=face, markersize=6)


def _say_change(axes: Axes, height: float, change: _Change, *, bold: bool) -> None:
    axes.annotate(
        change.words,
        (1.02, height),
        xycoords=("axes fraction", "data"),
        va="center",
        color=canvas.INK if bold else canvas.MUTED,
        weight="bold" if bold else "normal",
        annotation_clip=False,
    )
