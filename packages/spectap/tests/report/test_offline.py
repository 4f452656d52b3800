"""The report of jobs: a row for each part that was timed, and what the figures are not."""

import json
import shutil
from pathlib import Path

import pytest

from spectap.report import offline, page, terminal
from tests import samples
from tests.commands.test_collect import RECORDED, VARIANTS


@pytest.mark.parametrize("mode", ["vanilla", "medusa", "another"])
def test_each_part_is_a_row_and_the_notes_say_what_the_figures_are_not(
    tmp_path: Path, mode: str
) -> None:
    base, speculative = VARIANTS
    variants = [base, {**speculative, "mode": mode}]
    settings = samples.settings(isolated=True, variants=variants, stand_in="an <i>output</i>")
    (tmp_path / "inference_demo").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(settings))
    for name, recorded in (("Base", "baseline"), ("SD", "vanilla")):
        shutil.copy(RECORDED / f"{recorded}.json", tmp_path / "inference_demo" / f"{name}.json")
    view, config = offline.read(tmp_path)
    ((table, _),) = view.tables
    base_rows, rows = table.groups
    assert base_rows[0].labels == ("Base", "plain decoding", "whole generation")
    assert base_rows[0].values == (("23,153", "23,171", "23,174", "44.2", ""),)
    phases = ("whole generation", "prefill", "verification step")
    assert [row.labels for row in rows] == [("SD", f"{mode}, window 7", each) for each in phases]
    # 23,153 by 18,143 ms; only whole generations are compared.
    assert [row.values[0][-1] for row in (*base_rows, *rows)] == ["", "", "", "1.28", "", ""]
    modes = [mode] if mode != "another" else []
    assert [note.partition(":")[0] for note in view.notes[3:]] == modes
    html = page.write_jobs(tmp_path, view, config).read_text(encoding="utf-8")
    for text in (terminal.text(view, 120), html):
        for words in ("random token ids", "Nothing was measured here", "18,143"):
            assert words in " ".join(text.split())
    assert "<i>" not in html
