"""What make would do, as it says itself."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from experiment import DEFAULT_FILE
from rehearsal.aws import environment
from tests.run_make import ROOT, checkout, make

FILE: Final = "experiments/article.yaml"
ACCOUNT_COMMANDS: Final = (
    *("preflight", "bootstrap", "deploy", "experiment", "start", "stop", "destroy"),
    *("status", "logs", "results", "delivery", "changes"),
)
"""Commands that act on an account."""
TEXT: Final = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_an_experiment_hears_that_it_is_to_end_and_cleaning_keeps_results() -> None:
    # make tells its child alone.
    assert re.search(r"^experiment:.*\n(\t.*\n)*?\t@exec python -m operations", TEXT, re.M)
    (cleaned,) = re.findall(r"^clean:.*\n\t(.*)\n\n?", TEXT, re.M)
    assert cleaned.startswith("rm -rf cdk.out dist ")
    assert "results" not in cleaned
    assert re.findall(r"^export EXPERIMENT \?= (.+)$", TEXT, re.M) == [DEFAULT_FILE]


ECHO = f"""#!{sys.executable}
import json, sys
with open("ran.jsonl", "a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
"""
"""In the place of a program: writes down its arguments."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return checkout(tmp_path, ECHO)


@pytest.mark.parametrize("target", ["logs", "report"])
def test_what_is_printed_in_a_workflow_is_no_command(folder: Path, target: str) -> None:
    """Not ``::add-mask::`` and not ``##[add-mask]``, without a line of ours again in the step.

    actions/runner: ActionCommandManager.cs; each step has one of its own by Handler.cs.
    """
    arguments, tokens = (target, f"EXPERIMENT={FILE}"), set()
    for _ in range(2):
        result = make(folder, {"GITHUB_ACTIONS": "true"}, *arguments)
        assert (result.returncode, result.stdout) == (0, "")
        (token,) = re.findall(r"\A::stop-commands::([0-9a-f]{32})\Z", result.stderr.strip())
        tokens.add(token)
    assert len(tokens) == 2, "a pod could write a token that it knows"
    assert make(folder, {}, *arguments).stderr == ""


def test_a_file_is_no_command(folder: Path) -> None:
    """make would rehearse the default, and have nothing to do for a file that exists."""
    result = make(folder, {}, "rehearse", "$(CURDIR).yaml", FILE)
    assert result.returncode == 2
    assert "give it as EXPERIMENT=$(CURDIR).yaml" in result.stderr
    assert not (folder / "ran.jsonl").exists()


HOSTILE = """`touch ran`$(touch ran)$(shell touch ran)${shell touch ran}";touch ran;' |touch ran
\ttouch ran #\\\x1b[2J$$x$(info made)"""
"""Of it shells and make run every part, if they get to."""
TEXTS: Final[dict[str, tuple[str, str]]] = {
    "synth": ("EXPERIMENT ACCOUNT", "operations synth --experiment={} --account={}"),
    "rehearse": ("EXPERIMENT", "rehearsal {}"),
    "rehearse-vllm": ("EXPERIMENT", "tests.vllm {}"),
    "report": ("RUN", "spectap report -- {}"),
    "advise": ("RUN", "spectap advise -- {}"),
    "tap": ("UPSTREAM PORT LEDGER", "spectap tap --upstream={} --port={} --ledger={}"),
    "read": ("FILES", "spectap read -- ..."),
    "compare": (
        "FAIL_BELOW LAUNCH_ERROR",
        "spectap compare --fail-below={} --launch-error={} -- x y",
    ),
    "measure": (
        "CASES PROMPTS OPTIONS BASE SD VARIANTS",
        "spectap measure --cases={} --prompts={} ... -- Base={} SD={} ...",
    ),
    "diff": ("JSON BASE EXPERIMENT", "tools.diff --json={} -- {} {}"),
    **{name: ("EXPERIMENT", f"operations {name} --experiment={{}}") for name in ACCOUNT_COMMANDS},
    "deploy": ("EXPERIMENT YES STACKS", "operations deploy --experiment={} -- ..."),
    "destroy": (
        "EXPERIMENT YES KEEP NAME",
        "operations destroy --experiment={} --keep={} --name={}",
    ),
    "logs": ("EXPERIMENT OF", "operations logs --experiment={} --of={}"),
    "results": ("EXPERIMENT RUN", "operations results --experiment={} --run={}"),
    "changes": ("EXPERIMENT JSON", "operations changes --experiment={} --json={}"),
    "cost": ("EXPERIMENT", "experiment cost {}"),
}
"""The variables of each target, and where their values come out in the arguments of the module that
it runs: in one piece, or as words where the program takes several."""


@pytest.mark.parametrize("target", TEXTS)
def test_what_a_user_gives_is_text(folder: Path, target: str) -> None:
    variables, expected = TEXTS[target]
    values = dict.fromkeys(variables.split(), HOSTILE)
    if target == "compare":  # which counts them
        values["RUNS"] = "x y"
    make(folder, values, target)
    make(folder, {}, target, *(f"{name}={value}" for name, value in values.items()))
    assert not (folder / "ran").exists()
    words = ["-m"]
    for word in expected.split():
        words += HOSTILE.split() if word == "..." else [word.replace("{}", HOSTILE)]
    lines = (folder / "ran.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [words] * 2


def test_no_value_of_a_user_is_expanded_by_make() -> None:
    """``$(value NAME)`` is: what make itself must know, and only compares.

    MAKECMDGOALS is text to make already, which it does not expand again.
    """
    assigned = {*re.findall(r"^(?:export )?([A-Z_]+) :?= ", TEXT, re.MULTILINE)}
    expanded = {*re.findall(r"(?<!\$)\$[({]([A-Z_]+)[)}]", TEXT)}
    assert expanded - assigned == {"CURDIR", "MAKEFILE_LIST", "MAKECMDGOALS", "MAKE_VERSION"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tap", "UPSTREAM is needed: make tap UPSTREAM=http://HOST:PORT"),
        ("read", "FILES is needed: make read FILES=results/..."),
        ("compare", 'RUNS is needed: make compare RUNS="OLD NEW"'),
        ("measure", "Endpoints are needed: make measure BASE=http://HOST:PORT SD=http://HOST:PORT"),
        *(
            (name, f"EXPERIMENT is needed: make {name} EXPERIMENT=experiments/NAME.yaml")
            for name in ACCOUNT_COMMANDS
        ),
    ],
)
def test_what_a_target_needs_is_said(folder: Path, target: str, message: str) -> None:
    for given in ([], ["EXPERIMENT="] if target in ACCOUNT_COMMANDS else []):
        result = make(folder, {}, target, *given)
        assert result.returncode == 2
        assert result.stderr.startswith(f"{message}\n")


def test_an_account_that_cannot_be_asked_is_one_line() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "operations", "destroy", "--experiment", FILE],
        cwd=ROOT,
        env=environment("http://127.0.0.1:9", "us-east-2"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith('AWS: Could not connect to the endpoint URL: "http://127.0.0.1:9/"')
