"""The figures: drawn, legible on either page, left out where there is nothing to draw."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.text import Text

from spectap.report import page
from spectap.report.plots import at_load, canvas, over_loads
from spectap.report.results import Results
from tests import generated_runs as generated
from tests.report import runs

SD = "#b34700"


@pytest.fixture(autouse=True)
def _styled() -> Iterator[None]:
    with rc_context(canvas.STYLE):
        yield


def painted(drawing: Drawing | None) -> tuple[list[Axes], set[str]]:
    """The panels, and the texts that are seen: each is inside, and none covers another."""
    assert drawing
    drawing.draw_without_rendering()
    outside = [
        tick.label1
        for axes in drawing.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    ]
    visible = [
        text
        for text in drawing.findobj(Text)
        if isinstance(text, Text)
        and text.get_visible()
        and text.get_text().strip()
        and text not in outside
    ]
    boxes = [(text, text.get_window_extent()) for text in visible]
    for (first, box), (second, beside) in itertools.combinations(boxes, 2):
        assert not box.overlaps(beside), (first.get_text(), second.get_text())
    for text, box in boxes:
        assert -1 <= box.x0 < box.x1 <= drawing.bbox.width + 1, text.get_text()
        assert -1 <= box.y0 < box.y1 <= drawing.bbox.height + 1, text.get_text()
    return drawing.axes, {text.get_text() for text in visible}


def marks(axes: Axes, colour: str, marker: str) -> list[tuple[float, float]]:
    """The points that are drawn in one colour with that marker."""
    return [
        (x, y)
        for line in axes.lines
        if (line.get_color(), line.get_marker()) == (colour, marker)
        for x, y in np.asarray(line.get_xydata()).tolist()
    ]


def test_what_cannot_be_drawn_is_left_out(tmp_path: Path) -> None:
    content = generated.config()
    lines = [line for line in generated.ledger(content) if line["round"] != 5]
    for known, names in ((lines, ["over-time"]), ([], [])):
        drawn = page.draw(runs.read(tmp_path, content, known))
        assert [figure.name for figure in drawn] == names


def test_ratios_mark_where_the_variants_meet(ladder: Results) -> None:
    case = ladder.summary.cases[1]
    (crossed,) = case.ladders
    panels, texts = painted(over_loads.paint_ratios(ladder.summary, over_loads.of_case(case)))
    closed, *_, decoding, decoding_at_rates = panels
    assert {"1", "2", "4", "8", "0.5", "requests at once", "requests a second"} <= texts
    assert {"speed of a request", "throughput of all together", "speed of decoding", "SD"} <= texts
    (band,) = [patch for patch in closed.patches if patch.get_alpha()]
    low, high = band.get_extents().transformed(closed.transData.inverted()).intervalx
    assert (low, high) == pytest.approx((crossed.speed.better_up_to, crossed.speed.worse_from))
    assert marks(closed, SD, "X") == [(crossed.speed.point, 1)]
    hollow = [line for line in closed.lines if line.get_markerfacecolor() == canvas.PAPER]
    assert [line.get_xdata()[0] for line in hollow] == [pytest.approx(8)]  # type: ignore[index]  # a list
    expected = {
        cell.load.amount: comparison.by_time_per_output_token.point
        for cell, comparison in case.compared
        if cell.load and comparison.by_time_per_output_token
    }
    drawn = marks(decoding, SD, "o") + marks(decoding_at_rates, SD, "o")
    assert dict(drawn) == pytest.approx(expected)


def test_the_answer_has_each_class_and_the_test_cases_of_none(
    comparison: Results, ladder: Results
) -> None:
    (axes,), texts = painted(at_load.paint_gains(comparison.summary))
    assert {"2 structured test cases", "1 open-ended test case", "1x"} <= texts
    (mean,) = comparison.summary.overall
    ((_, alone),) = comparison.summary.cases[2].compared
    expected = [each.point for each in (mean.speed, alone.speedup) if each]
    assert [x for x, _ in marks(axes, SD, "o")] == expected
    rows = over_loads.of_classes(ladder.summary)
    (closed, *_), texts = painted(over_loads.paint_ratios(ladder.summary, rows))
    assert {"2 structured test cases", "1 open-ended test case", "requests at once"} <= texts
    means = {mean.load: mean.speed.point for mean in ladder.summary.overall if mean.speed}
    assert sorted(y for _, y in marks(closed, SD, "o")) == sorted([*means.values()][:4])


def test_latencies_and_throughput_stand_beside_their_objectives(ladder: Results) -> None:
    case = ladder.summary.cases[0]
    panels, texts = painted(over_loads.paint_latency(ladder.summary, case))
    assert {"TTFT, ms", "TPOT, ms", "E2E, ms", "p50", "p90", "objective for p90"} <= texts
    for number, limit in ((0, 600), (2, 30)):
        dotted = [line for line in panels[number].lines if line.get_linestyle() == ":"]
        assert [line.get_ydata()[0] for line in dotted] == [limit]  # type: ignore[index]  # a list
    samples = [case.cell("SD", load).measures["TTFT"] for load in case.loads[:4]]
    assert [y for _, y in marks(panels[0], SD, "o")] == [1000 * each.p50 for each in samples]
    assert [y for _, y in marks(panels[0], SD, "_")] == [1000 * each.p90 for each in samples]
    drawing = over_loads.paint_pareto(ladder.summary, case)
    assert drawing
    named = {text.get_text() for text in drawing.findobj(Text) if isinstance(text, Text)}
    assert {"1", "2", "4", "8", "0.5/s", "objective: TPOT 30 ms", "Base", "SD"} <= named
    cell = case.cell("SD", case.loads[0])
    point = (1 / cell.measures["TimePerOutputToken"].p50, cell.tokens_per_second)
    assert point in marks(drawing.axes[0], SD, "o")


def test_a_line_joins_the_medians_of_the_rounds(comparison: Results) -> None:
    (load,) = comparison.config.load.points
    (*_, ttft), texts = painted(at_load.paint_over_time(comparison, load))
    assert {"E2E, s", "TPOT, ms", "TTFT, ms", "Base", "SD", "structured", "open-ended"} <= texts
    assert "minutes since the first request" in texts
    values = [
        1000 * record.chunks[0][0]
        for record in comparison.records
        if (record.case, record.variant, record.round) == ("repetition", "Base", 1)
    ]
    curves = [np.asarray(line.get_xydata()) for line in ttft.lines if line.get_marker() == "None"]
    assert [len(curve) for curve in curves] == [6] * 4
    assert curves[0][0, 1] == pytest.approx(np.median(values))
    assert 0 <= curves[0][0, 0] < 1
    assert ttft.get_ylim()[1] > max(values)
