"""The report of jobs: a row for each part that was timed, and what the figures are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spectap.report import offline, page, terminal
from tests.spectap import samples
from tests.spectap.commands.test_collect import RECORDED, VARIANTS


def written(folder: Path, **changes: Any) -> Path:
    """A merged run."""
    settings = samples.settings(**({"apart": True, "variants": VARIANTS} | changes))
    (folder / "inference_demo").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(settings))
    for name, recorded in (("Base", "baseline"), ("SD", "vanilla")):
        shutil.copy(RECORDED / f"{recorded}.json", folder / "inference_demo" / f"{name}.json")
    return folder


def test_a_row_for_each_part_that_was_timed(tmp_path: Path) -> None:
    view, _ = offline.read(written(tmp_path))
    ((table, _),) = view.tables
    base, speculative = table.groups
    assert base[0].labels == ("Base", "plain decoding", "whole generation")
    assert base[0].values == (("23,153", "23,171", "23,174", "44.2", ""),)
    assert [row.labels for row in speculative] == [
        ("SD", "vanilla, window 7", phase)
        for phase in ("whole generation", "prefill", "verification step")
    ]
    # 23,153 by 18,143 ms; only whole generations are compared.
    speed_ups = [row.values[0][-1] for group in table.groups for row in group]
    assert speed_ups == ["", "", "", "1.28", "", ""]


def test_table_and_page_say_what_the_figures_are_not(tmp_path: Path) -> None:
    view, config = offline.read(written(tmp_path, stand_in="an <i>output</i>"))
    html = page.write_jobs(tmp_path, view, config).read_text(encoding="utf-8")
    for text in (terminal.text(view, 120), html):
        folded = " ".join(text.split())
        for words in ("random token ids", "Nothing was measured here", "18,143", "vanilla: "):
            assert words in folded
    assert "<i>" not in html


@pytest.mark.parametrize("mode", ["vanilla", "medusa", "another"])
def test_a_mode_s_own_note_is_there_where_it_has_one(tmp_path: Path, mode: str) -> None:
    base, speculative = VARIANTS
    view, _ = offline.read(written(tmp_path, variants=[base, {**speculative, "mode": mode}]))
    assert [note.partition(":")[0] for note in view.notes[2:]] == ([mode] * (mode != "another"))
