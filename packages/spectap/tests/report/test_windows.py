"""The table of measured windows, and what to measure next."""

from dataclasses import replace

import pytest

from spectap.analysis.summary import Summary, Window, Windows
from spectap.report import headline, page, run_view, terminal, windows
from spectap.report.results import Results
from tests.report.runs import section


def of_variants(summary: Summary, **changes: Window) -> Summary:
    """The summary with windows of its first table changed, by variant, and no other table."""
    first = summary.windows[0]
    measured = tuple(changes.get(window.variant, window) for window in first.measured)
    return replace(summary, windows=(replace(first, measured=measured),))


def by_variant(table: Windows) -> dict[str, Window]:
    return {window.variant: window for window in table.measured}


def test_it_stands_in_both_forms_and_in_a_command_of_its_own(sweep: Results) -> None:
    (table,) = (table for table, _ in run_view.of_run(sweep).details if "windows" in table.title)
    fastest = sweep.summary.windows[0].measured[0]
    assert table.groups[0][0].labels[2] == fastest.variant
    html = section(page.html(sweep), "windows")
    alone = terminal.text(windows.view(sweep), 120)
    for text in (html, alone):
        assert "Measured windows" in text
        assert "Qwen3-0.6B" in text
    assert alone.startswith("Windows of article: k3, k5, k7, k11, small against Base")
    of_one = replace(sweep, summary=replace(sweep.summary, windows=()))
    assert not section(page.html(of_one), "windows")


def test_the_widest_window_asks_for_a_wider_one_unless_it_is_a_block(sweep: Results) -> None:
    first = by_variant(sweep.summary.windows[0])
    widest = sweep.summary.windows[0].measured[0]
    assert widest.window == max(w.window or 0 for w in first.values() if w.draft == widest.draft)
    wanted = f"Measure a window wider than {widest.window}: it is the widest, and the best on "
    assert any(sentence.startswith(wanted) for sentence in windows.sentences(sweep.summary))
    blocks = {name: replace(w, mode="dflash") for name, w in first.items() if w.window}
    for changed in (
        of_variants(sweep.summary, **blocks),
        replace(of_variants(sweep.summary), rehearsal=True),
    ):
        assert not any("wider" in sentence for sentence in windows.sentences(changed))


@pytest.mark.parametrize("near", [True, False])
def test_a_best_that_may_be_no_faster_asks_for_rounds(near: bool, sweep: Results) -> None:
    base = replace(by_variant(sweep.summary.windows[0])["Base"], near=near)
    sentences = [*windows.sentences(of_variants(sweep.summary, Base=base))]
    assert any("may be no faster than the baseline" in each for each in sentences) is near


def test_the_headline_names_the_faster_window(sweep: Results) -> None:
    table = sweep.summary.windows[0]
    answers = headline.answers(sweep.summary, sweep.config)
    slower = {each.variant for each in table.measured if not each.near} - {"Base"}
    assert slower
    for answer in answers:
        of_table = answer.split()[0] in slower and table.prompts in answer
        assert answer.endswith(f"Take {table.measured[0].variant} instead.") <= of_table
    assert any(answer.endswith("instead.") for answer in answers)
