"""What make would do, as it says itself."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from experiment import DEFAULT_FILE
from tests.made import ROOT, checkout, make

INSTALLED = (
    *(".venv/ready", ".venv/prompt-sets/ready", ".venv/ready-dev"),
    "node_modules/.package-lock.json",
)


def recipes(*targets: str, **environment: str) -> list[str]:
    """The lines make would run for ``targets``, were nothing there yet."""
    result = make(ROOT, environment, "--dry-run", "--always-make", *targets)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def installs(lines: list[str]) -> list[tuple[str, str]]:
    """Each line that installs something, after the one before it."""
    return [
        (before, line)
        for before, line in itertools.pairwise(lines)
        if "pip install" in line or "npm ci" in line
    ]


def test_what_is_installed_is_said_before() -> None:
    installing = installs(recipes(*INSTALLED))
    assert len(installing) == len(INSTALLED)
    assert all(before.startswith('echo "Installing ') for before, _ in installing)


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
    result = make(
        tmp_path, environment, "--old-file=.venv/ready", "node_modules/.package-lock.json"
    )
    assert result.returncode != 0
    assert "npm error code ECONNREFUSED" in result.stderr
    assert not (tmp_path / "node_modules" / ".package-lock.json").exists()


def test_cleaning_keeps_results() -> None:
    (line,) = recipes("clean")
    assert line.startswith("rm -rf cdk.out dist ")
    assert "results" not in line


def test_the_default_experiment_is_that_of_every_command() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^export EXPERIMENT \?= (.+)$", text, re.MULTILINE) == [DEFAULT_FILE]


ECHO = f"""#!{sys.executable}
import json, sys
with open("ran.jsonl", "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
"""
"""In the place of a program: writes down its arguments."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return checkout(tmp_path, ECHO)


def ran(folder: Path, *arguments: str, **environment: str) -> list[list[str]]:
    """The arguments of each program that make has run."""
    result = make(folder, environment, *arguments)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in (folder / "ran.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("variables", "endpoints"),
    [
        (["BASE=http://a", "SD=http://b"], ["Base=http://a", "SD=http://b"]),
        (["VARIANTS=Base=http://a k3=http://b"], ["Base=http://a", "k3=http://b"]),
        (["BASE=http://a", "VARIANTS=k3=http://b"], ["Base=http://a", "k3=http://b"]),
    ],
)
def test_endpoints_are_measured_by_name(
    folder: Path, variables: list[str], endpoints: list[str]
) -> None:
    plain, settings = ["-m", "spectap", "measure"], ["CASES=my cases", "OPTIONS=--rounds 2"]
    assert ran(folder, "measure", *variables) == [[*plain, "--", *endpoints]]
    assert ran(folder, "measure", *variables, *settings)[1:] == [
        [*plain, "--cases=my cases", "--rounds", "2", "--", *endpoints]
    ]


def test_an_experiment_of_vllm_is_small_unless_one_is_given(folder: Path) -> None:
    assert ran(folder, "rehearse-vllm")[-1][-1] == "experiments/two-cores.yaml"
    assert ran(folder, "rehearse-vllm", "EXPERIMENT=mine.yaml")[-1][-1] == "mine.yaml"


CLI = """#!/bin/sh
echo refused >&2
echo 'Supply a stack id (a, b) to display its template.' >&2
exit 3
"""


@pytest.mark.parametrize("target", ["synth", "manifests"])
def test_the_cli_fails_as_itself_and_advises_nothing(tmp_path: Path, target: str) -> None:
    result = make(checkout(tmp_path, CLI), {}, target)
    assert result.returncode == 2
    assert result.stderr.startswith("refused\nmake: ")
    assert "Error 3" in result.stderr
    assert "Supply" not in result.stdout + result.stderr


HOSTILE = """`touch ran`$(touch ran)$(shell touch ran)${shell touch ran}";touch ran;' |touch ran
\ttouch ran #\\\x1b[2J$$x$(info made)"""
"""Of it shells and make run every part, if they get to."""
FILE = "experiments/article.yaml"
TEXTS: Final[dict[str, tuple[str, Sequence[Any]]]] = {
    "synth": ("EXPERIMENT", ["--context", "experiment={}"]),
    "manifests": ("ACCOUNT", ["--context", "account={}"]),
    "rehearse": ("EXPERIMENT", ["rehearsal", "{}"]),
    "rehearse FAULTS": ("FAULTS", [FILE, ...]),
    "rehearse-vllm": ("EXPERIMENT", ["--vllm", "{}"]),
    "report": ("RUN", ["report", "--", "{}"]),
    "advise": ("RUN", ["--", ...]),
    "advise MIX": ("MIX", ["advise", "--mix={}"]),
    "tap": ("UPSTREAM", ["tap", "--upstream={}"]),
    "tap LEDGER": ("LEDGER", ["--ledger={}"]),
    "tap PORT": ("PORT", ["--port={}"]),
    "read": ("FILES", ["read", "--", ...]),
    "compare": ("FAIL_BELOW", ["compare", "--fail-below={}", "--"]),
    "measure": ("BASE", ["--", "Base={}"]),
    "measure SD": ("SD", ["SD={}"]),
    "measure VARIANTS": ("VARIANTS", ["Base=x", ...]),
    "measure CASES": ("CASES", ["--cases={}"]),
    "measure PROMPTS": ("PROMPTS", ["--prompts={}"]),
    "measure OPTIONS": ("OPTIONS", ["measure", ...]),
    "diff": ("BASE", ["--", "{}", FILE]),
    "diff EXPERIMENT": ("EXPERIMENT", ["main", "{}"]),
    "diff WITH": ("WITH", ["--with={}"]),
    "diff MARKDOWN": ("MARKDOWN", ["--markdown={}"]),
    **{
        target: ("EXPERIMENT", [target, "--experiment={}"])
        for target in (
            *("preflight", "bootstrap", "deploy", "experiment", "start", "stop", "destroy"),
            *("status", "logs", "results", "delivery", "changes"),
        )
    },
    "deploy STACKS": ("STACKS", ["--", ...]),
    "deploy YES": ("YES", [f"--experiment={FILE}", "--"]),
    "destroy KEEP": ("KEEP", ["--keep={}"]),
    "destroy NAME": ("NAME", ["--name={}"]),
    "logs OF": ("OF", ["--of={}"]),
    "results RUN": ("RUN", ["--run={}"]),
    "changes MARKDOWN": ("MARKDOWN", ["--markdown={}"]),
    "cost": ("EXPERIMENT", ["cost", "{}"]),
}
"""The variables of each target, and where in a program's arguments their values come out: in one
piece, or as words where the program takes several."""
NEEDED: Final = {
    "advise": {"RUN": "x"},
    "tap": {"UPSTREAM": "x"},
    "compare": {"RUNS": "x y"},
    "measure": {"BASE": "x"},
    "smoke": {},
}


@pytest.mark.parametrize("by", ["command line", "environment"])
@pytest.mark.parametrize("case", TEXTS)
def test_what_a_user_gives_is_text(folder: Path, case: str, by: str) -> None:
    target, (variable, expected) = case.partition(" ")[0], TEXTS[case]
    values = NEEDED.get(target, {}) | {variable: HOSTILE}
    if target not in NEEDED:
        values = {"EXPERIMENT": FILE} | values
    if by == "environment":
        make(folder, values, target)
    else:
        make(folder, {}, target, *(f"{name}={value}" for name, value in values.items()))
    assert not (folder / "ran").exists()
    arguments = json.loads((folder / "ran.jsonl").read_text().splitlines()[0])
    spread: list[str] = []
    for each in expected:
        spread += HOSTILE.split() if each is ... else [str(each).replace("{}", HOSTILE)]
    begins = [
        index for index in range(len(arguments)) if arguments[index : index + len(spread)] == spread
    ]
    assert begins, arguments


def test_a_small_experiment_is_written_beside_any(folder: Path) -> None:
    # Of two levels: there is no file of this name.
    result = make(folder, {}, "smoke", f"EXPERIMENT={HOSTILE}")
    assert json.loads((folder / "ran.jsonl").read_text())[-1] == HOSTILE
    assert not (folder / "ran").exists()
    assert (folder / f"{HOSTILE}-smoke.yaml").exists(), result.stderr


def test_no_value_of_a_user_is_expanded_by_make() -> None:
    """``$(value NAME)`` is: what make itself must know, and only compares."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assigned = {*re.findall(r"^(?:export )?([A-Z_]+) :?= ", text, re.MULTILINE)}
    expanded = {*re.findall(r"(?<!\$)\$[({]([A-Z_]+)[)}]", text)}
    assert expanded - assigned == {"CURDIR", "MAKEFILE_LIST"}


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
    result = make(ROOT, {}, "--old-file=.venv/ready-dev", target)
    assert result.returncode == 2
    assert result.stderr.startswith(f"{message}\n")
