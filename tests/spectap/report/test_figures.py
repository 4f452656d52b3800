"""The seven figures: drawn, legible on either page, saying why where they cannot be drawn."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Text

from spectap.report import advice, figures
from spectap.report.plots import at_load, canvas, over_loads
from spectap.report.results import Results
from spectap.report.view import Figure
from tests.spectap import generated_runs as generated
from tests.spectap.report import runs

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
OVER_LOADS = ("request-speed", "decoding-speed", "latency", "pareto")
RATIOS = (over_loads.SPEED, over_loads.TOGETHER)
SD = "#b34700"


@pytest.fixture(autouse=True)
def _styled() -> Iterator[None]:
    with canvas.style():
        yield


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """All seven, really drawn: of one test case at two load points."""
    folder = tmp_path_factory.mktemp("drawn")
    run = runs.ladder(folder, {1: 0.8, 8: 4.0}, {}, cases=1)
    return {drawing.name: drawing for drawing in figures.draw(run)}


def painted(figure: Canvas) -> set[str]:
    """The texts of a figure that are seen: each is inside it, and none covers another."""
    figure.draw_without_rendering()
    outside = [
        tick.label1
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    ]
    visible = [
        text
        for text in figure.findobj(Text)
        if isinstance(text, Text)
        and text.get_visible()
        and text.get_text().strip()
        and (text.axes is None or text.axes.get_visible())
        and text not in outside
    ]
    boxes = [(text, text.get_window_extent()) for text in visible]
    for (first, box), (second, beside) in itertools.combinations(boxes, 2):
        assert not box.overlaps(beside), (first.get_text(), second.get_text())
    for text, box in boxes:
        assert -1 <= box.x0 < box.x1 <= figure.bbox.width + 1, text.get_text()
        assert -1 <= box.y0 < box.y1 <= figure.bbox.height + 1, text.get_text()
    return {text.get_text() for text in visible}


def marks(axes: Axes, colour: str, marker: str) -> list[tuple[float, float]]:
    """The points that are drawn in one colour with that marker."""
    return [
        (x, y)
        for line in axes.lines
        if (line.get_color(), line.get_marker()) == (colour, marker)
        for x, y in np.asarray(line.get_xydata()).tolist()
    ]


def test_a_figure_for_each_test_case_and_each_load_point(drawings: dict[str, Figure]) -> None:
    at = [f"{name}-concurrency-{load}" for load in (1, 8) for name in ("gains", "over-time")]
    assert [*drawings] == ["acceptance", *(f"{name}-repetition" for name in OVER_LOADS), *at]
    assert not any(drawing.missing for drawing in drawings.values())
    assert all(drawing.png.startswith(b"\x89PNG") for drawing in drawings.values())
    title = "SD answers requests faster up to 1 at once and slower from 8"
    assert drawings["request-speed-repetition"].title == title
    assert drawings["gains-concurrency-8"].title == "Speed-up at concurrency 8"


def test_svg_takes_every_colour_from_the_page_and_nothing_from_outside(
    drawings: dict[str, Figure],
) -> None:
    identifiers: list[str] = []
    for drawing in drawings.values():
        ElementTree.fromstring(drawing.svg)
        fixed = re.sub(r"var\([^)]*\)", "", drawing.svg)
        assert not re.search(r"(?:fill|stroke): *(?:#|rgb|black|white)", fixed)
        assert not re.search(r'(?:href|src)="(?!#)|url\((?!#)|@import|<style', drawing.svg)
        identifiers += {*re.findall(r'\bid="([^"]+)"', drawing.svg)}
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.parametrize(
    ("lines", "variants", "missing"),
    [
        ([line for line in LINES if line["variant"] == "Base"], 2, {"gains": True}),
        ([line for line in LINES if line["round"] != 5], 2, {"gains": True, "over-time": False}),
        ([], 2, {"gains": True, "over-time": True}),
        # A baseline alone has no figure of comparisons.
        ([line for line in LINES if line["variant"] == "Base"], 1, {"over-time": False}),
    ],
)
def test_what_cannot_be_drawn_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: list[generated.Line],
    variants: int,
    missing: dict[str, bool],
) -> None:
    # Turning figures into files is what takes the time.
    monkeypatch.setattr(canvas, "to_svg", lambda *_: "")
    monkeypatch.setattr(canvas, "to_png", lambda *_: b"")
    content = CONFIG | {"variants": generated.ARTICLE[:variants]}
    drawn = {
        figure.name: bool(figure.missing)
        for figure in figures.draw(runs.read(tmp_path, content, lines))
    }
    assert missing.items() <= drawn.items()
    assert ("gains" in drawn) is (variants > 1)


def test_ratios_mark_where_the_variants_meet(ladder: Results) -> None:
    case = ladder.summary.cases[1]
    (crossed,) = case.ladders
    figure = over_loads.paint_ratios(ladder.summary, case, RATIOS)
    texts = painted(figure)
    assert crossed.speed.point is not None
    assert {f"{crossed.speed.point:.2g}", "1", "2", "4", "8", "0.5"} <= texts
    assert {"requests at once", "requests a second", "speed of one request", "SD"} <= texts
    closed = figure.axes[0]
    (band,) = [patch for patch in closed.patches if patch.get_alpha()]
    low, high = band.get_extents().transformed(closed.transData.inverted()).intervalx
    assert (low, high) == pytest.approx((crossed.speed.better_up_to, crossed.speed.worse_from))
    hollow = [line for line in closed.lines if line.get_markerfacecolor() == canvas.PAPER]
    assert [line.get_xdata()[0] for line in hollow] == [pytest.approx(8)]  # type: ignore[index]  # a list


def test_without_a_crossover_no_band_is_drawn(tmp_path: Path) -> None:
    run = runs.ladder(tmp_path, {1: 0.8, 2: 0.9, 4: 1.0}, {}, cases=1)
    figure = over_loads.paint_ratios(run.summary, run.summary.cases[0], RATIOS)
    assert not [patch for axes in figure.axes for patch in axes.patches if patch.get_alpha()]


def test_decoding_is_drawn_with_its_own_ratios(ladder: Results) -> None:
    case = ladder.summary.cases[0]
    (closed, rates) = over_loads.paint_ratios(ladder.summary, case, (over_loads.DECODING,)).axes
    expected = {
        cell.load.amount: comparison.by_time_per_output_token.point
        for cell, comparison in case.compared
        if cell.load and comparison.by_time_per_output_token
    }
    assert dict(marks(closed, SD, "o") + marks(rates, SD, "o")) == pytest.approx(expected)


def test_latencies_stand_beside_their_objectives(ladder: Results) -> None:
    case = ladder.summary.cases[0]
    figure = over_loads.paint_latency(ladder.summary, case)
    assert {"TTFT, ms", "TPOT, ms", "E2E, ms", "p50", "p90", "objective for p90"} <= painted(figure)
    for number, limit in ((0, 600), (2, 30)):
        dotted = [line for line in figure.axes[number].lines if line.get_linestyle() == ":"]
        assert [line.get_ydata()[0] for line in dotted] == [limit]  # type: ignore[index]  # a list
    samples = [case.cell("SD", load).measures["TTFT"] for load in case.loads[:4]]
    assert [y for _, y in marks(figure.axes[0], SD, "o")] == [1000 * each.p50 for each in samples]
    assert [y for _, y in marks(figure.axes[0], SD, "_")] == [1000 * each.p90 for each in samples]
    without = replace(ladder.summary, objectives=None)
    assert "objective for p90" not in painted(over_loads.paint_latency(without, case))


def test_throughput_against_speed_names_its_loads(ladder: Results) -> None:
    case = ladder.summary.cases[0]
    figure = over_loads.paint_pareto(ladder.summary, case)
    figure.draw_without_rendering()
    texts = {text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)}
    assert {"1", "2", "4", "8", "0.5/s", "objective: TPOT 30 ms", "Base", "SD"} <= texts
    cell = case.cell("SD", case.loads[0])
    point = (1 / cell.measures["TimePerOutputToken"].p50, cell.tokens_per_second)
    assert point in marks(figure.axes[0], SD, "o")


def test_gains_have_the_intervals_of_the_verdicts(tmp_path: Path) -> None:
    run = runs.read(tmp_path, generated.config(variants=generated.TWO_BASELINES, rounds=3))
    figure = at_load.paint_gains(run.summary)
    assert {"k7", "k7-b8", "decoding", "repetition", "1x"} <= painted(figure)
    (axes,) = figure.axes
    expected = [
        comparison.speedup.point
        for case in run.summary.cases
        for cell, comparison in case.compared
        if comparison.speedup and cell.variant == "k7"
    ]
    assert [x for x, _ in marks(axes, SD, "o")] == expected


@pytest.mark.parametrize("requests", [4, 8])
def test_a_line_joins_the_waves_of_all_rounds(tmp_path: Path, requests: int) -> None:
    run = runs.read(tmp_path, generated.config(requests=requests))
    figure = at_load.paint_over_time(run)
    texts = painted(figure)
    assert {"E2E, s", "TPOT, ms", "TTFT, ms", "Base", "SD", "structured", "open-ended"} <= texts
    assert any(text.endswith("s since the first request") for text in texts)
    for axes in figure.axes:
        points = [np.asarray(line.get_xydata()) for line in axes.lines]
        assert [len(curve) for curve in points] == [6 * requests // 4] * 4
        assert all(np.isfinite(curve).all() for curve in points)


def test_drafts_have_the_windows_and_acceptances_of_the_advice(sweep: Results) -> None:
    of = sweep.advice
    assert of
    (first, paint), *_ = figures._catalogue(sweep)
    assert first.title.endswith("and the speed-up over the window at concurrency 1")
    pairs = zip(*[iter(paint().axes)] * 2, strict=True)
    axes_of = {pair[0].get_title(loc="left"): pair for pair in pairs}
    assert [*axes_of] == ["structured", "open-ended"]
    colours = advice.colours(of)
    for prospect in of.prospects:
        if prospect.load == at_load.first_load(of):
            colour, axes = colours[prospect.line], axes_of[prospect.prompt_class][1]
            point = prospect.speedup.point
            assert dict(marks(axes, colour.light, "None"))[prospect.window] == pytest.approx(point)
            measured = dict(marks(axes, colour.light, colour.marker))
            assert (prospect.window in measured) is (prospect.measured is not None)
    for acceptance in of.acceptances:
        colour, axes = colours[acceptance.line], axes_of[acceptance.prompt_class][0]
        # What too few steps reached is left out.
        known = [position for position in acceptance.positions if position.interval]
        points = marks(axes, colour.light, colour.marker)
        assert [y for _, y in points] == [100 * position.accepted for position in known]
        assert [round(x) for x, _ in points] == [position.number for position in known]
    for best in of.recommendations[:2]:
        rings = [
            int(np.asarray(line.get_xydata())[0, 0])
            for line in axes_of[best.prompt_class or ""][1].lines
            if line.get_marker() == "o" and line.get_markerfacecolor() == "none"
        ]
        assert rings == [best.choice.window]


def test_one_window_is_drawn_without_a_curve_over_windows(comparison: Results) -> None:
    of = comparison.advice
    assert of
    assert len(at_load.paint_drafts(of).axes) == 2
    with pytest.raises(canvas.NothingToDraw):
        at_load.paint_drafts(replace(of, acceptances=()))
