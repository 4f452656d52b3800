"""The page on modes shows what the catalogue of runtimes says."""

from __future__ import annotations

import subprocess
import sys

from experiment.runtimes import RUNTIMES, Mode
from tests.experiment.files import ROOT

PAGE = ROOT / "docs" / "modes.md"


def printed() -> str:
    command = [sys.executable, "-m", "experiment", "modes"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_tables_of_the_page_are_fresh() -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, begun, rest = page.partition("<!-- python -m experiment modes -->\n")
    tables, ended, _ = rest.partition("<!-- end -->\n")
    assert begun
    assert ended
    assert tables == printed(), (
        "docs/modes.md is stale: put in what python -m experiment modes prints"
    )


def test_the_tables_name_every_mode_on_every_runtime() -> None:
    who, how = printed().split("\n\n")
    assert [line.split("`")[1] for line in who.splitlines()[2:]] == [*Mode]
    named = {tuple(line.split("`")[1:4:2]) for line in how.splitlines()[2:]}
    assert named == {(mode, name) for name, runtime in RUNTIMES.items() for mode in runtime.modes}
    assert all(line.endswith(") |") for line in how.splitlines()[2:]), "a mode without a source"
