"""The seven figures: drawn, legible on either page, saying why where they cannot be drawn."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text

from spectap.report import advice, figures, phrases, results
from spectap.report.plots import canvas, drafts, gains, latency, over_time, pareto, speeds
from spectap.report.results import Results
from spectap.report.view import Figure
from tests.spectap import generated_runs as generated
from tests.spectap.report import advised, laddered

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
NAMES = ("acceptance", "gains", "over-time")
OVER_LOADS = ("request-speed", "decoding-speed", "latency", "pareto")
ADVICE = advised.advice([advised.FOUR])


@pytest.fixture(autouse=True)
def _styled() -> Iterator[None]:
    with canvas.style():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return laddered.run(tmp_path_factory.mktemp("run"), cases=generated.CASES[:2])


@pytest.fixture(scope="module")
def drawings(run: Results) -> dict[str, Figure]:
    """All of them, really drawn."""
    return {drawing.name: drawing for drawing in figures.draw(run)}


@pytest.fixture
def _unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the words alone: turning figures into files is what takes the time."""
    monkeypatch.setattr(canvas, "to_svg", lambda *_: "")
    monkeypatch.setattr(canvas, "to_png", lambda *_: b"")


def painted(figure: Canvas) -> set[str]:
    """The texts of a figure that are seen: each is inside it, and none covers another."""
    figure.draw_without_rendering()
    ticks = [
        tick.label1
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    ]
    shown = [
        text
        for text in figure.findobj(Text)
        if isinstance(text, Text)
        and text.get_visible()
        and text.get_text().strip()
        and (text.axes is None or text.axes.get_visible())
        and text not in ticks
    ]
    boxes = [(text, text.get_window_extent()) for text in shown]
    for (one, box), (other, beside) in itertools.combinations(boxes, 2):
        assert not box.overlaps(beside), (one.get_text(), other.get_text())
    for text, box in boxes:
        assert -1 <= box.x0 < box.x1 <= figure.bbox.width + 1, text.get_text()
        assert -1 <= box.y0 < box.y1 <= figure.bbox.height + 1, text.get_text()
    return {text.get_text() for text in shown}


def marks(axes: Axes, colour: str, marker: str) -> list[tuple[float, float]]:
    """The points that are drawn in one colour with that marker."""
    return [
        (x, y)
        for line in axes.lines
        if (line.get_color(), line.get_marker()) == (colour, marker)
        for x, y in np.asarray(line.get_xydata()).tolist()
    ]


def test_a_figure_for_each_test_case_and_each_load_point(drawings: dict[str, Figure]) -> None:
    cases = [f"{name}-{case}" for case in ("repetition", "counting") for name in OVER_LOADS]
    loads = [f"concurrency-{number}" for number in (1, 2, 4, 8)] + ["rate-0.5"]
    at = [f"{name}-{load}" for load in loads for name in NAMES[1:]]
    assert [*drawings] == ["acceptance", *cases, *at]
    assert not any(drawing.missing for drawing in drawings.values())
    assert all(drawing.png.startswith(b"\x89PNG") for drawing in drawings.values())
    title = "SD answers requests faster up to 4 at once and slower from 8"
    assert drawings["request-speed-counting"].title == title
    assert drawings["gains-rate-0.5"].title == "Speed-up at 0.5 requests a second"


def test_svg_takes_every_colour_from_the_page_and_nothing_from_outside(
    drawings: dict[str, Figure],
) -> None:
    for drawing in drawings.values():
        ElementTree.fromstring(drawing.svg)
        fixed = re.sub(r"var\([^)]*\)", "", drawing.svg)
        assert not re.search(r"(?:fill|stroke): *(?:#|rgb|black|white)", fixed)
        assert not re.search(r'(?:href|src)="(?!#)|url\((?!#)|@import|<style', drawing.svg)
    found = [
        identifier
        for drawing in drawings.values()
        for identifier in set(re.findall(r'\bid="([^"]+)"', drawing.svg))
    ]
    assert len(found) == len(set(found))


@pytest.mark.usefixtures("_unpainted")
@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        ([line for line in LINES if line["variant"] == "Base"], {"gains"}),
        ([line for line in LINES if line["round"] != 5], {"gains"}),
        ([], {"gains", "over-time"}),
    ],
)
def test_what_cannot_be_drawn_says_why(
    tmp_path: Path, lines: list[generated.Line], missing: set[str]
) -> None:
    drawings = figures.draw(results.read(generated.write(tmp_path, CONFIG, lines)))
    assert {drawing.name for drawing in drawings if drawing.missing} == missing


@pytest.mark.usefixtures("_unpainted")
def test_a_baseline_alone_has_no_figures_of_comparisons(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.ARTICLE[:1])
    lines = generated.ledger(configuration)
    drawings = figures.draw(results.read(generated.write(tmp_path, configuration, lines)))
    assert [(drawing.name, drawing.missing) for drawing in drawings] == [("over-time", "")]


def test_speeds_mark_where_the_variants_meet(run: Results) -> None:
    case = run.summary.cases[1]
    (ladder,) = case.ladders
    figure = speeds.paint(run.summary, case, (speeds.SPEED, speeds.TOGETHER))
    shown = painted(figure)
    assert ladder.speed.point is not None
    assert {f"{ladder.speed.point:.2g}", "1", "2", "4", "8", "0.5"} <= shown
    assert {"requests at once", "requests a second", "speed of one request", "SD"} <= shown
    closed = figure.axes[0]
    (band,) = [patch for patch in closed.patches if patch.get_alpha()]
    low, high = band.get_extents().transformed(closed.transData.inverted()).intervalx
    assert (low, high) == pytest.approx((ladder.speed.better_up_to, ladder.speed.worse_from))


def test_without_a_crossover_no_band_is_drawn(tmp_path: Path) -> None:
    run = laddered.run(tmp_path, {1: 0.8, 2: 0.9, 4: 1.0}, {})
    case = run.summary.cases[0]
    for ratios in ((speeds.SPEED, speeds.TOGETHER), (speeds.DECODING,)):
        figure = speeds.paint(run.summary, case, ratios)
        assert not [patch for axes in figure.axes for patch in axes.patches if patch.get_alpha()]


def test_decoding_is_drawn_with_its_own_ratios(run: Results) -> None:
    case = run.summary.cases[0]
    (closed, _) = speeds.paint(run.summary, case, (speeds.DECODING,)).axes
    expected = [
        (load.amount, comparison.by_time_per_output_token.point)
        for load in speeds.kinds_of_load(case, False)
        if (comparison := case.cell("SD", load).comparison) and comparison.by_time_per_output_token
    ]
    drawn = marks(closed, "#b34700", "o")
    assert dict(drawn) == pytest.approx(dict(expected))


def test_latencies_stand_beside_their_objectives(run: Results) -> None:
    figure = latency.paint(run.summary, run.summary.cases[0])
    assert {"TTFT, ms", "TPOT, ms", "E2E, ms", "p50", "p90", "objective for p90"} <= painted(figure)
    for number, limit in ((0, 600), (2, 30)):
        dotted = [line for line in figure.axes[number].lines if line.get_linestyle() == ":"]
        assert [line.get_ydata()[0] for line in dotted] == [limit]  # type: ignore[index]  # a list
    without = replace(run.summary, objectives=None)
    assert "objective for p90" not in painted(latency.paint(without, run.summary.cases[0]))


def test_throughput_against_speed_names_its_loads(run: Results) -> None:
    figure = pareto.paint(run.summary, run.summary.cases[0])
    figure.draw_without_rendering()
    shown = {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)}
    assert {"1", "2", "4", "8", "0.5/s", "objective: TPOT 30 ms", "Base", "SD"} <= shown


def test_gains_have_the_intervals_of_the_verdicts(tmp_path: Path) -> None:
    variants = generated.config(variants=generated.TWO_BASELINES, rounds=3)
    lines = generated.ledger(variants)
    run = results.read(generated.write(tmp_path, variants, lines))
    figure = gains.paint(run.summary)
    assert {"k7", "k7-b8", "decoding", "repetition", "1x"} <= painted(figure)
    (axes,) = figure.axes
    expected = [
        comparison.speedup.point
        for case in run.summary.cases
        for cell, comparison in case.compared
        if comparison.speedup and cell.variant == "k7"
    ]
    assert [x for x, _ in marks(axes, "#b34700", "o")] == expected


@pytest.mark.parametrize("requests", [4, 8])
def test_a_line_joins_the_waves_of_all_rounds(tmp_path: Path, requests: int) -> None:
    configuration = generated.config(requests=requests)
    lines = generated.ledger(configuration)
    figure = over_time.paint(results.read(generated.write(tmp_path, configuration, lines)))
    shown = painted(figure)
    assert {"E2E, s", "TPOT, ms", "TTFT, ms"} <= shown
    assert any(text.endswith("s since the first request") for text in shown)
    assert {"Base", "SD", "structured", "open-ended"} <= shown
    for axes in figure.axes:
        drawn = [np.asarray(line.get_xydata()) for line in axes.lines]
        assert [len(points) for points in drawn] == [6 * requests // 4] * 4
        assert all(np.isfinite(points).all() for points in drawn)


def panels(figure: Canvas) -> dict[str, tuple[Axes, Axes]]:
    """Acceptance and windows of each class."""
    rows = itertools.batched(figure.axes, 2) if hasattr(itertools, "batched") else None
    pairs: list[Any] = [*rows] if rows else [*zip(figure.axes[::2], figure.axes[1::2], strict=True)]
    return {
        acceptance.get_title(loc="left"): (acceptance, windows) for acceptance, windows in pairs
    }


def test_drafts_have_the_windows_and_acceptances_of_the_advice() -> None:
    shown = panels(drafts.paint(ADVICE))
    assert [*shown] == ["structured", "open-ended"]
    colours = advice.colours(ADVICE)
    for prospect in ADVICE.prospects:
        colour, axes = colours[prospect.line], shown[prospect.prompt_class][1]
        point = prospect.speedup.point
        assert dict(marks(axes, colour.light, "None"))[prospect.window] == pytest.approx(point)
        measured = dict(marks(axes, colour.light, colour.marker))
        assert (prospect.window in measured) is (prospect.measured is not None)
    for acceptance in ADVICE.acceptances:
        colour, axes = colours[acceptance.line], shown[acceptance.prompt_class][0]
        # What too few steps reached is left out.
        known = [position for position in acceptance.positions if position.interval]
        points = marks(axes, colour.light, colour.marker)
        assert [y for _, y in points] == [100 * position.accepted for position in known]
        assert [round(x) for x, _ in points] == [position.number for position in known]
    for best in ADVICE.recommendations:
        if best.prompt_class:
            rings = [
                int(np.asarray(line.get_xydata())[0, 0])
                for line in shown[best.prompt_class][1].lines
                if line.get_markersize() == drafts._RING
            ]
            assert rings == [best.choice.window]


def test_one_window_is_drawn_without_a_curve_over_windows() -> None:
    assert len(drafts.paint(advised.one_window()).axes) == 2
    with pytest.raises(canvas.NothingToDraw):
        drafts.paint(replace(ADVICE, acceptances=()))


def test_loads_are_named_in_captions() -> None:
    load = phrases.load_points([advised.FOUR])
    assert figures._drafts(ADVICE).title.endswith(f"the speed-up over the window at {load}")
