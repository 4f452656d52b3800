"""The figures: all drawn, legible on either page, saying why where they cannot be drawn."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from spectap import metrics
from spectap.report import figures, results
from spectap.report.figures import Drawing
from spectap.report.plots import canvas, over_time, per_step
from tests.spectap import generated_runs as generated

CONFIG = generated.config()
LINES = generated.ledger(CONFIG)
NAMES = (
    "windows",
    "acceptance",
    "end-to-end",
    "inter-token",
    "ttft",
    "tokens-per-step",
    "llmperf",
    "speed-up",
    "throughput",
    "cost",
)


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drawing]:
    folder = generated.write(tmp_path_factory.mktemp("run"), CONFIG, LINES)
    generated.write_llmperf(folder, LINES)
    return {drawing.name: drawing for drawing in figures.draw(results.read(folder))}


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()).strip() for node in ElementTree.fromstring(svg).iter()]


@pytest.fixture
def _unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the words alone: turning figures into files is what takes the time."""
    monkeypatch.setattr(canvas, "to_svg", lambda *_: "")
    monkeypatch.setattr(canvas, "to_png", lambda *_: b"")


def missing(folder: Path, lines: list[generated.Line]) -> dict[str, str]:
    run = results.read(generated.write(folder, CONFIG, lines))
    return {drawing.name: drawing.missing for drawing in figures.draw(run) if drawing.missing}


def test_all_are_drawn(drawings: dict[str, Drawing]) -> None:
    assert tuple(drawings) == NAMES
    assert not any(drawing.missing for drawing in drawings.values())
    assert all(drawing.png.startswith(b"\x89PNG") for drawing in drawings.values())


@pytest.mark.parametrize("name", NAMES)
def test_svg_takes_every_colour_from_the_page(drawings: dict[str, Drawing], name: str) -> None:
    svg = drawings[name].svg
    ElementTree.fromstring(svg)
    fixed = re.sub(r"var\([^)]*\)", "", svg)
    assert not re.search(r"(?:fill|stroke): *(?:#|rgb|black|white)", fixed)


def test_svg_identifiers_are_unique_on_the_page(drawings: dict[str, Drawing]) -> None:
    found = [
        identifier
        for drawing in drawings.values()
        for identifier in set(re.findall(r'\bid="([^"]+)"', drawing.svg))
    ]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", NAMES)
def test_svg_needs_nothing_from_outside(drawings: dict[str, Drawing], name: str) -> None:
    svg = drawings[name].svg
    assert not re.search(r'(?:href|src)="(?!#)|url\((?!#)|@import|<style', svg)


@pytest.mark.parametrize("name", ["end-to-end", "inter-token", "ttft"])
def test_curves_over_time_are_named_and_have_units(drawings: dict[str, Drawing], name: str) -> None:
    found = texts(drawings[name].svg)
    ticks = {"end-to-end": {"4", "5"}, "inter-token": {"20", "40"}, "ttft": {"100", "200"}}
    for variant in ("Base", "SD"):
        assert f"━━ {variant}, structured" in found
        assert f"┅┅ {variant}, open-ended" in found
    assert any(text.endswith((", s", ", ms")) for text in found)
    assert "seconds since the first request" in found
    assert ticks[name] <= set(found)
    assert "at concurrency 4" in drawings[name].title


def test_llmperf_is_contradicted_where_it_calls_sd_slower(drawings: dict[str, Drawing]) -> None:
    found = texts(drawings["llmperf"].svg)
    assert found.count("3.0x faster") >= 1
    svg = ElementTree.fromstring(drawings["llmperf"].svg)
    claims = [node for node in svg.iter() if (node.text or "").strip().endswith("slower")]
    assert len(claims) == 3
    assert all(re.search(r"\b(700|bold)\b", node.get("style", "")) for node in claims)
    assert "as published" in drawings["llmperf"].caption


@pytest.mark.usefixtures("_unpainted")
def test_llmperf_formula_is_labelled_where_llmperf_did_not_run(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG, LINES))
    caption = next(d.caption for d in figures.draw(run) if d.name == "llmperf")
    assert "by its formula on the same streams" in caption
    assert "as published" not in caption


def test_cost_names_its_denominator(drawings: dict[str, Drawing]) -> None:
    assert "8 of 16 devices of one trn2.48xlarge" in drawings["cost"].caption


@pytest.mark.parametrize("name", ["throughput", "cost"])
def test_throughput_and_cost_have_intervals(drawings: dict[str, Drawing], name: str) -> None:
    assert "95 % intervals" in drawings[name].caption
    # One for Base and one for SD of each of three cases.
    assert drawings[name].svg.count(f'id="{name}-LineCollection_') == 6


@pytest.fixture(scope="module")
def of_four(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Drawing]:
    """Two baselines, each with one variant."""
    configuration = generated.config(variants=generated.TWO_BASELINES)
    lines = generated.ledger(configuration)
    folder = generated.write(tmp_path_factory.mktemp("four"), configuration, lines)
    generated.write_llmperf(folder, lines)
    return {drawing.name: drawing for drawing in figures.draw(results.read(folder))}


def test_four_variants_are_drawn_each_in_its_colour(of_four: dict[str, Drawing]) -> None:
    assert tuple(of_four) == NAMES
    assert not any(drawing.missing for drawing in of_four.values())
    compared = {"tokens-per-step", "speed-up"}
    # Advice is on drafts and their windows, which have colours of their own.
    drafts = {"windows": {"variant-1"}, "acceptance": set()}
    for name, drawing in of_four.items():
        used = set(re.findall(r"--(variant-\d)", drawing.svg))
        expected = {"variant-2", "variant-4"} if name in compared else set()
        if name in drafts:
            expected = {"variant-2", "variant-3"} | drafts[name]
        assert used == (expected or {f"variant-{number}" for number in (1, 2, 3, 4)}), name


def test_four_variants_are_named(of_four: dict[str, Drawing]) -> None:
    for name in ("end-to-end", "inter-token", "ttft"):
        found = texts(of_four[name].svg)
        for variant in ("Base", "k7", "Base-b8", "k7-b8"):
            assert f"━━ {variant}, structured" in found
    for name in ("throughput", "cost", "llmperf"):
        assert {"Base", "k7", "Base-b8", "k7-b8"} <= set(texts(of_four[name].svg))
    assert {"k7", "k7-b8", "decoding"} <= set(texts(of_four["speed-up"].svg))
    assert "repetition, k7-b8 · true" in texts(of_four["llmperf"].svg)


@pytest.mark.usefixtures("_unpainted")
def test_a_baseline_alone_has_no_figures_of_comparisons(tmp_path: Path) -> None:
    configuration = generated.config(variants=generated.ARTICLE[:1])
    lines = generated.ledger(configuration)
    run = results.read(generated.write(tmp_path, configuration, lines))
    drawings = figures.draw(run)
    assert {drawing.name for drawing in drawings} == {*NAMES} - {
        "windows",
        "acceptance",
        "tokens-per-step",
        "llmperf",
        "speed-up",
    }
    assert not any(drawing.missing for drawing in drawings)


@pytest.mark.usefixtures("_unpainted")
def test_without_a_price_there_is_no_figure_of_the_cost(tmp_path: Path) -> None:
    run = results.read(generated.write(tmp_path, CONFIG | {"cost": None}, LINES))
    assert [drawing.name for drawing in figures.draw(run)] == [n for n in NAMES if n != "cost"]


@pytest.mark.usefixtures("_unpainted")
def test_one_of_two_variants_measured(tmp_path: Path) -> None:
    found = missing(tmp_path, [line for line in LINES if line["variant"] == "Base"])
    assert set(found) == {"tokens-per-step", "llmperf", "speed-up"}


@pytest.mark.usefixtures("_unpainted")
def test_without_a_round_there_is_no_cost_and_no_speed_up(tmp_path: Path) -> None:
    found = missing(tmp_path, [line for line in LINES if line["round"] != 5])
    assert set(found) == {"cost", "speed-up"}
    assert "requests failed or are missing" in found["cost"]


@pytest.mark.parametrize("requests", [4, 8])
def test_a_line_joins_the_waves_of_all_rounds(tmp_path: Path, requests: int) -> None:
    configuration = generated.config(requests=requests)
    lines = generated.ledger(configuration)
    run = results.read(generated.write(tmp_path, configuration, lines))
    with canvas.style():
        (axes,) = over_time.paint(run, metrics.TTFT).axes
    drawn = [np.asarray(line.get_xydata()) for line in axes.lines]
    assert [len(points) for points in drawn] == [6 * requests // 4] * 4
    assert all(np.isfinite(points).all() for points in drawn)


def test_nothing_recorded(tmp_path: Path) -> None:
    # Without a step there is no advice, and nothing to draw of it.
    assert set(missing(tmp_path, [])) == {*NAMES} - {"windows", "acceptance"}


@pytest.mark.parametrize("sizes", [(7, 1), (1, 15)])
def test_no_label_of_the_histograms_meets_another(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """Whatever bar is the highest: the caption stands over the right ones."""
    of_case = dict(zip(("repetition", "open-ended"), sizes, strict=True))
    lines = [
        {**line, "chunks": [[offset, of_case[line["case"]]] for offset, _ in line["chunks"]]}
        for line in LINES
        if line["case"] in of_case
    ]
    run = results.read(generated.write(tmp_path, CONFIG, lines))
    with canvas.style():
        figure = per_step.paint(run)
        figure.draw_without_rendering()
        boxes = {
            text: text.get_window_extent()
            for text in figure.findobj(Text)
            if isinstance(text, Text) and text.get_visible() and text.get_text()
        }
    assert sum("tokens a step" in text.get_text() for text in boxes) == 2
    for (one, box), (other, beside) in itertools.combinations(boxes.items(), 2):
        assert not box.overlaps(beside), (one.get_text(), other.get_text())


HEIGHTS = st.lists(st.floats(-100, 100), max_size=6)


@given(HEIGHTS, st.floats(0.1, 10))
def test_labels_are_moved_apart_and_keep_their_order(heights: list[float], gap: float) -> None:
    moved = canvas.apart(heights, gap)
    in_order = [moved[index] for index in sorted(range(len(heights)), key=heights.__getitem__)]
    steps = [later - earlier for earlier, later in itertools.pairwise(in_order)]
    assert all(step >= gap * (1 - 1e-6) for step in steps)


@given(HEIGHTS, st.floats(0.1, 10))
def test_labels_far_enough_apart_stay(heights: list[float], gap: float) -> None:
    spread = [index * gap * 1.01 for index in range(len(heights))]
    assert canvas.apart(spread, gap) == pytest.approx(spread)
