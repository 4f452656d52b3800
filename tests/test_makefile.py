"""What make would do, as it says itself."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from experiment import DEFAULT_FILE

ROOT = Path(__file__).parents[1]
INSTALLED = (
    *(".venv/ready", ".venv/prompt-sets/ready", ".venv/ready-dev"),
    "node_modules/.package-lock.json",
)


def recipes(*targets: str, **environment: str) -> list[str]:
    """The lines make would run for ``targets``, were nothing there yet."""
    made = make(ROOT, environment, "--dry-run", "--always-make", *targets)
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


def make(
    folder: Path, environment: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """As a person calls it, though these tests may run within another make."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    outside.pop("MFLAGS", None)
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=outside | dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )


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
    quiet = re.compile(r"--quiet|--loglevel=error > /dev/null$")
    assert all(quiet.search(line) for _, line in in_a_log)
    assert not any(quiet.search(line) for _, line in on_a_terminal)


def test_npm_says_what_went_wrong(tmp_path: Path) -> None:
    for name in ("Makefile", "package.json", "package-lock.json", ".npmrc"):
        shutil.copy(ROOT / name, tmp_path)
    environment = {
        "npm_config_registry": "http://127.0.0.1:9/",  # where nobody listens
        "npm_config_noproxy": "127.0.0.1",
        "npm_config_cache": str(tmp_path / "cache"),
        "npm_config_fetch_retries": "0",
    }
    made = make(tmp_path, environment, "--old-file=.venv/ready", "node_modules/.package-lock.json")
    assert made.returncode != 0
    assert "npm error code ECONNREFUSED" in made.stderr
    assert not (tmp_path / "node_modules" / ".package-lock.json").exists()


def test_cleaning_keeps_results() -> None:
    (line,) = recipes("clean")
    assert line.startswith("rm -rf cdk.out dist ")
    assert "results" not in line


def test_the_default_experiment_is_that_of_every_command() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^EXPERIMENT \?= (.+)$", text, re.MULTILINE) == [DEFAULT_FILE]


@pytest.mark.parametrize(
    ("variables", "endpoints"),
    [
        (["BASE=http://a", "SD=http://b"], "Base=http://a SD=http://b"),
        (["VARIANTS=Base=http://a k3=http://b"], "Base=http://a k3=http://b"),
        (["BASE=http://a", "VARIANTS=k3=http://b"], "Base=http://a k3=http://b"),
    ],
)
def test_endpoints_are_measured_by_name(variables: list[str], endpoints: str) -> None:
    *_, line, files = recipes("measure", *variables)
    assert line.split("measure ")[1].rstrip(" \\") == endpoints
    assert files.strip() == ""
    *_, files = recipes("measure", *variables, "CASES=my cases", "OPTIONS=--rounds 2")
    assert files.split("  ")[0].strip() == '--cases "my cases"'
    assert files.endswith("--rounds 2")


def test_advice_is_for_a_run_and_a_mix_if_one_is_given() -> None:
    assert recipes("advise", "RUN=sweep-1")[-1] == "python -m benchmark advise sweep-1 "
    *_, line = recipes("advise", "RUN=sweep-1", "MIX=structured=0.7,open-ended=0.3")
    assert line.endswith(' sweep-1 --mix "structured=0.7,open-ended=0.3"')


def test_two_runs_are_compared_and_a_threshold_is_passed_on() -> None:
    *_, line = recipes("compare", "RUNS=a b")
    assert line.rstrip() == "python -m benchmark compare a b"
    *_, line = recipes("compare", "RUNS=a b", "FAIL_BELOW=0.95")
    assert line == 'python -m benchmark compare a b --fail-below "0.95"'


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tap", "UPSTREAM is needed: make tap UPSTREAM=http://HOST:PORT"),
        ("read", "FILES is needed: make read FILES=results/..."),
        ("compare", 'RUNS is needed: make compare RUNS="OLD NEW"'),
        ("measure", "Endpoints are needed: make measure BASE=http://HOST:PORT SD=http://HOST:PORT"),
    ],
)
def test_what_a_target_needs_is_said(target: str, message: str) -> None:
    made = make(ROOT, {}, "--old-file=.venv/ready-dev", target)
    assert made.returncode == 2
    assert made.stderr.startswith(f"{message}\n")
