"""The figures of advice: what they show is what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from spectap.analysis.advice.advice import Advice
from spectap.report.plots import by_line, canvas, over_positions, over_windows, predicted
from tests.spectap.report import advised

ADVICE = advised.advice([advised.ALONE, advised.FOUR])


@pytest.fixture(autouse=True)
def _styled() -> Iterator[None]:
    with canvas.style():
        yield


def drawn(axes: Axes, colour: str, marker: str) -> list[tuple[float, float]]:
    """The ends of what is drawn in one colour with that marker."""
    return [
        (x, y)
        for line in axes.lines
        if (line.get_color(), line.get_marker()) == (colour, marker)
        for x, y in np.asarray(line.get_xydata()).tolist()
    ]


def panels(figure: Any) -> dict[str, Axes]:
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_visible()}


def test_each_window_has_its_speed_up_over_the_baseline() -> None:
    found = panels(over_windows.paint(ADVICE, advised.FOUR))
    assert [*found] == ["structured", "open-ended"]
    colours = by_line.colours(ADVICE)
    for prospect in ADVICE.prospects:
        if prospect.load != advised.FOUR:
            continue
        axes, colour = found[prospect.prompt_class], colours[prospect.line]
        point = (prospect.window, prospect.speedup.point)
        assert dict(drawn(axes, colour.light, "None"))[point[0]] == pytest.approx(point[1])
        marks = drawn(axes, colour.light, colour.marker)
        assert (prospect.window in dict(marks)) is (prospect.measured is not None)
        (base,) = {y for _, y in drawn(axes, colours[by_line.BASELINE].light, "None")}
        assert base == 1


def test_the_best_of_each_class_is_ringed() -> None:
    found = panels(over_windows.paint(ADVICE, advised.FOUR))
    for one in ADVICE.recommendations:
        if one.load == advised.FOUR and one.prompt_class:
            rings = [
                int(np.asarray(line.get_xydata())[0, 0])
                for line in found[one.prompt_class].lines
                if line.get_markeredgecolor() == canvas.INK
            ]
            assert rings == [one.choice.window]


def test_acceptance_leaves_out_what_too_few_steps_reached() -> None:
    found = panels(over_positions.paint(ADVICE))
    for one in ADVICE.acceptances:
        colour = by_line.colours(ADVICE)[one.line]
        marks = drawn(found[one.prompt_class], colour.light, colour.marker)
        known = [position for position in one.positions if position.interval]
        assert [y for _, y in marks] == [100 * position.accepted for position in known]
        assert [round(x) for x, _ in marks] == [position.number for position in known]


def test_without_rounds_acceptance_has_no_intervals() -> None:
    bare = [
        replace(one, positions=tuple(replace(p, interval=None) for p in one.positions))
        for one in ADVICE.acceptances
    ]
    found = panels(over_positions.paint(replace(ADVICE, acceptances=tuple(bare))))
    assert not any(axes.collections for axes in found.values())
    assert all(axes.lines for axes in found.values())


def test_a_prediction_stands_over_what_was_measured() -> None:
    (axes,) = predicted.paint(ADVICE).axes
    points = {
        point
        for colour in by_line.colours(ADVICE).values()
        for point in drawn(axes, colour.light, colour.marker)
    }
    assert points == {
        (one.measured.point, one.predicted.point)
        for one in ADVICE.prospects
        if one.measured and one.predicted
    }


@pytest.mark.parametrize(
    ("advice", "paint"),
    [
        (advised.one_window(), predicted.paint),
        (replace(ADVICE, acceptances=()), over_positions.paint),
        (ADVICE, lambda advice: over_windows.paint(advice, None)),
    ],
)
def test_what_is_not_there_is_not_drawn(advice: Advice, paint: Any) -> None:
    with pytest.raises(canvas.NothingToDraw):
        paint(advice)


@pytest.mark.parametrize("classes", [1, 2, 3, 7])
def test_a_panel_for_each_class(classes: int) -> None:
    names = [f"class {number}" for number in range(classes)]
    figure, found = by_line.panels(names, "window", "tokens/s")
    assert [name for name, _ in found] == names
    assert len(panels(figure)) == classes
    labelled = [axes for _, axes in found if axes.get_xlabel()]
    assert len(labelled) == min(classes, 2)
