"""What make would do, as it says itself."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTALLED = (".venv/ready", ".venv/ready-dev", "node_modules/.package-lock.json")


def recipes(*targets: str, **environment: str) -> list[str]:
    """The lines make would run for ``targets``, were nothing there yet."""
    # As a person calls it, though these tests may run within another make.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    outside.pop("MFLAGS", None)
    made = subprocess.run(
        ["make", "--dry-run", "--always-make", *targets],
        cwd=ROOT,
        env=outside | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.splitlines()


def installs(lines: list[str]) -> list[tuple[str, str]]:
    """Each line that installs something, after the one before it."""
    return [
        (before, line)
        for before, line in itertools.pairwise(lines)
        if "pip install" in line or "npm ci" in line
    ]


def test_what_is_installed_is_said_before() -> None:
    found = installs(recipes(*INSTALLED))
    assert len(found) == len(INSTALLED)
    assert all(before.startswith('echo "Installing ') for before, _ in found)


def test_pip_and_npm_show_how_far_they_are_on_a_terminal_only() -> None:
    in_a_log = installs(recipes(*INSTALLED))
    # By this name make tells that its output is a terminal.
    on_a_terminal = installs(recipes(*INSTALLED, MAKE_TERMOUT="/dev/tty"))
    assert len(on_a_terminal) == len(in_a_log)
    assert all("--quiet" in line or "--silent" in line for _, line in in_a_log)
    assert not any("--quiet" in line or "--silent" in line for _, line in on_a_terminal)


def test_cleaning_keeps_results() -> None:
    (line,) = recipes("clean")
    assert line.startswith("rm -rf cdk.out dist ")
    assert "results" not in line
