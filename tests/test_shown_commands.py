"""Every command in a block of the README or the docs is run by a test, or marked as it must be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE: Final = re.compile(r"^ *```[\w ]*\n(.*?)^ *```", re.M | re.S)
COMMAND: Final = re.compile(
    r"(?:[A-Z_]+=\$\()?"
    r"(make [a-z-]+|(?:\.venv/bin/)?python3? (?:-m [\w.]+(?: (?!-)[a-z-]+)?|\S+)"
    r"|(?:aws|k|kubectl|cdk|git|npm|docker|curl|aiperf|vllm|inference-perf|pip|pytest)(?=\s|$))"
)

RUN_BY: Final = {
    "make advise": "tests/spectap/commands/test_advise.py",
    "make compare": "tests/spectap/commands/test_compare.py",
    "make cost": "tests/experiment/test_cost_page.py",
    "make deploy": "tests/deployment/test_destroy.py",
    "make destroy": "tests/deployment/test_destroy.py",
    "make experiment": "tests/deployment/test_killed.py",
    "make measure": "tests/spectap/commands/test_measure.py",
    "make preflight": "tests/deployment/test_preflight_command.py",
    "make rehearse": "tests/rehearsal/test_rehearse.py",
    "make rehearse-vllm": "tests/vllm/conftest.py",
    "make report": "tests/spectap/test_main.py",
    "make smoke": "tests/experiment/test_smoke.py",
    "make start": "tests/deployment/test_killed.py",
    "make status": "tests/deployment/test_status.py",
    "make stop": "tests/deployment/test_killed.py",
    "make synth": "tests/test_app.py",
    "make tap": "tests/spectap/commands/test_tap.py",
    "python -m spectap measure": "tests/spectap/commands/test_measure.py",
    "python -m spectap read": "tests/spectap/commands/test_read.py",
    "python -m spectap tap": "tests/spectap/commands/test_tap.py",
    "python -m spectap": "tests/spectap/test_main.py",
    "python -m experiment add-model": "tests/experiment/test_add_model.py",
}
"""What runs a target's own command, with an embedded account where it acts on one."""

RUN_THEM: Final = frozenset({"make test", "make check", "pytest"})
"""The tests and checks themselves."""

MARKED: Final = {
    "aws": "need an account",
    "k": "need an account",
    "kubectl": "need an account",
    "aiperf": "no test runs",
    "curl": "no test runs",
    "pip": "no test runs",
    "python token_benchmark_ray.py": "no test runs",
    "vllm": "no test runs",
}
"""How a document says of a command of this kind that no test runs it."""


def shown(document: Path) -> set[str]:
    """The commands in its blocks, without their arguments."""
    lines = "\n".join(FENCE.findall(document.read_text(encoding="utf-8"))).splitlines()
    parts = (part.strip() for line in lines for part in line.split("&&"))
    return {found[1].removeprefix(".venv/bin/") for part in parts if (found := COMMAND.match(part))}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_is_run_by_a_test_or_marked(document: Path) -> None:
    text = " ".join(document.read_text(encoding="utf-8").split())
    for command in shown(document) - RUN_THEM:
        if command in MARKED:
            assert MARKED[command] in text, command
        else:
            assert (ROOT / RUN_BY[command]).is_file(), command


def test_nothing_is_listed_that_no_document_shows() -> None:
    everywhere = set().union(*map(shown, DOCUMENTS))
    assert RUN_BY.keys() | MARKED.keys() | RUN_THEM == everywhere


@pytest.mark.parametrize("command", [name for name in RUN_BY if name.startswith("make ")])
def test_the_test_runs_the_module_of_the_target(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(rf"^{command.split()[1]}:.*##.*\n((?:\t.*\n)+)", makefile, re.M)
    (word,) = set(re.findall(r"python -m (\w+)|\$\((CDK)\)", recipe)[0]) - {""}
    tests = (ROOT / RUN_BY[command]).read_text(encoding="utf-8")
    assert {"CDK": "cdk"}.get(word, word) in tests
