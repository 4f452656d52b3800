"""The report of jobs: a row for each part that was timed, and what the figures are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spectap.report import offline
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
    report = offline.read(written(tmp_path / "run"))
    assert report.rows[0] == (
        *("Base", "plain decoding", "whole generation"),
        *("23,153", "23,171", "23,174", "44.2", ""),
    )
    assert [row[:3] for row in report.rows[3:]] == [
        ("SD", "vanilla, window 7", "whole generation"),
        ("SD", "vanilla, window 7", "prefill"),
        ("SD", "vanilla, window 7", "verification step"),
    ]
    # 23,153 by 18,143 ms; only whole generations are compared.
    assert [row[-1] for row in report.rows] == ["", "", "", "1.28", "", ""]


def test_table_and_page_say_what_the_figures_are_not(tmp_path: Path) -> None:
    report = offline.read(written(tmp_path / "run", stand_in="an <i>output</i>"))
    for text in (report.table(120), report.write().read_text(encoding="utf-8")):
        said = " ".join(text.split())
        for words in ("random token ids", "Nothing was measured here", "18,143", "vanilla: "):
            assert words in said
    assert "<i>" not in (report.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("mode", ["vanilla", "medusa", "another"])
def test_a_mode_s_own_note_is_there_where_it_has_one(tmp_path: Path, mode: str) -> None:
    base, other = VARIANTS
    report = offline.read(written(tmp_path / "run", variants=[base, {**other, "mode": mode}]))
    assert [note.partition(":")[0] for note in report.notes[2:]] == ([mode] * (mode != "another"))
