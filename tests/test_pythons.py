"""The versions of Python that README names: make takes them, the workflow tries them."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tests.made import ROOT, make
from tests.test_workflows import FOLDER, load

README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMED = re.findall(r"3\.\d+", README.partition("\nNeeded: Python ")[2].partition(", `make`")[0])
OLDEST, NEWEST = NAMED[0], NAMED[-1]


def beside(version: str, step: int) -> str:
    return f"3.{int(version.partition('.')[2]) + step}"


@pytest.mark.parametrize(
    ("version", "status", "message"),
    [
        (beside(OLDEST, -1), 2, f"Python {OLDEST} or newer is needed; Python {{}}.0 is"),
        *((version, 0, "") for version in NAMED),
        (beside(NEWEST, 1), 0, f"Python {NEWEST} is the newest that was tried; Python {{}}.0 is"),
    ],
)
def test_make_says_what_it_takes(tmp_path: Path, version: str, status: int, message: str) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / "python"
    info = f"({version.replace('.', ', ')}, 0)"
    python.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f'-c) exec {sys.executable} -c "import sys; sys.version_info = {info}; $2";;\n'
        f"--version) echo Python {version}.0;;\n"
        "esac\n"
    )
    python.chmod(0o755)
    result = make(tmp_path, {}, ".venv/bin/pip", f"PYTHON={python}")
    assert result.returncode == status
    assert result.stderr.partition(f" {python}")[0] == message.format(version)


def test_the_oldest_and_the_newest_are_tried_and_checks_are_for_the_oldest() -> None:
    job = load(FOLDER / "main.yml")["jobs"]["make"]
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == [OLDEST]
    assert matrix["include"] == [{"target": "test", "python": NEWEST}]
    (setup,) = (s["with"] for s in job["steps"] if "setup-python" in s.get("uses", ""))
    assert setup["python-version"] == "${{ matrix.python }}"
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tool["mypy"]["python_version"] == OLDEST
    assert tool["ruff"]["target-version"] == f"py{OLDEST.replace('.', '')}"
