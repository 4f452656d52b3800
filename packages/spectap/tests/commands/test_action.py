"""The action's script, run as a runner does: options of bash, and inputs by the environment."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.commands.processes import ROOT

ACTION: Final = ROOT / "action.yml"
DESCRIBED: Final[dict[str, Any]] = YAML(typ="safe", pure=True).load(ACTION)


def run(folder: Path, **inputs: str) -> tuple[int, str, str]:
    """Exit status, job summary and outputs of the step that calls spectap."""
    step = next(step for step in DESCRIBED["runs"]["steps"] if step.get("id") == "spectap")
    values = {name: str(each["default"]) for name, each in DESCRIBED["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()}
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) }}", lambda match: values[match[1]], value)
        for name, value in step["env"].items()
    }
    installed = folder / "spectap/bin/python"
    installed.parent.mkdir(parents=True)
    installed.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    installed.chmod(0o755)
    summary, outputs = folder / "summary.md", folder / "outputs"
    environment |= {
        "ACTION": str(ACTION.parent),
        "RUNNER_TEMP": str(folder),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(outputs),
    }
    script = folder / "step.sh"
    script.write_text(step["run"], encoding="utf-8")
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    ended = subprocess.run(bash, cwd=folder, env=os.environ | environment, check=False)
    text = summary.read_text(encoding="utf-8") if summary.exists() else ""
    return ended.returncode, text, outputs.read_text(encoding="utf-8")


def test_a_fall_fails_the_job_and_is_in_its_summary(results: Path, tmp_path: Path) -> None:
    status, summary, outputs = run(
        tmp_path, run=str(results / "less"), against=str(results / "old"), fail_below="0.95"
    )
    assert (status, outputs) == (3, "status=3\n")
    assert re.search(r"^\*\*SD answers [\d.]+x as fast as Base", summary, re.M)
    assert re.search(r"^\| repetition \|.* [\d.]+x", summary, re.M)
    assert "BELOW 0.95: repetition, SD: the new tokens per step is 0." in summary


def test_an_argument_is_no_command(tmp_path: Path) -> None:
    measure = "base=$(touch made)\n--model=`touch made` 'a'; touch made\n\n"
    status, summary, outputs = run(tmp_path, measure=measure)
    assert (status, summary, outputs) == (2, "", "status=2\n")
    assert not (tmp_path / "made").exists()


def test_no_script_has_an_expression_in_it() -> None:
    assert not any("${{" in step.get("run", "") for step in DESCRIBED["runs"]["steps"])
