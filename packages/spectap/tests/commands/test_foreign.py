"""Folders that others made, or that are damaged: what cannot be read is refused in one line."""

import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectap.__main__ import main
from tests import generated_runs
from tests.commands.processes import ROOT, Benchmark
from tests.run import test_sweep

# A longer search: EXAMPLES=500 pytest tests/commands/test_foreign.py
EXAMPLES = int(os.environ.get("EXAMPLES", "5"))

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 0.5, 2**53, 2**64, 10**12, 10**400, 1e308, -1e308, 1e-308),
    *(float("inf"), float("-inf"), float("nan"), "", "x", "\ud800", "\x1b[2J", "Base", "SD"),
    *([], {}, [[]], [1, "x"], {"x": {}}),
)
ANSWERED = {
    **{"variant": "SD", "case": "counting", "load": "", "round": 1, "attempt": 1, "prompt": "p"},
    **{"digest": "d", "finish": "stop", "form": "JSON", "valid": True, "problem": ""},
    "answer": None,
}
USED = {
    **{"case": "counting", "source": "s", "licence": "l", "digest": "d", "used": 1},
    **{"classes": [["a", 1]], "left_out": [{"name": "p", "tokens": 1, "most": 1}], "counted": True},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder that each command reads, with every file that it may have."""
    folder = tmp_path_factory.mktemp("runs")
    run, sweep = folder / "run", test_sweep.write(folder / "sweep")
    shutil.copytree(ROOT / "tests" / "earlier_run", run)
    cases = ("repetition", "counting", "open-ended")
    turns = ((number, case) for number in (1, 2, 3) for case in cases)
    attempts = [{"round": n, "case": case, "failure": None, "load": ""} for n, case in turns]
    for name, lines in (("progress.jsonl", attempts), ("answers.jsonl", [ANSWERED])):
        test_sweep.append(run / name, lines)
    (run / "prompts.json").write_text(json.dumps([USED]), encoding="utf-8")
    merged = {"complete": ["Base"], "missing": {"SD": "it failed"}, "notes": ["a"]}
    (run / "merged.json").write_text(json.dumps(merged), encoding="utf-8")
    variants = generated_runs.TWO_WINDOWS
    content = generated_runs.config(variants=variants, rounds=3, output_tokens=20)
    windows = generated_runs.write(folder / "windows", content, generated_runs.ledger(content))
    for command, whole in (("report", run), ("advise", windows), ("merge", sweep)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["spectap", command, str(whole)])
            patch.setattr("spectap.report.page.draw", lambda run: ())
            assert main() == 0, "what is to be damaged is whole"
    return {"read": run, "report": run, "compare": run, "advise": windows, "merge": sweep}


def hostile(content: Any, chance: random.Random) -> Any:
    """The same, but for one value or one key somewhere in it."""
    if not isinstance(content, (dict, list)) or not content or chance.random() < 0.1:
        return chance.choice(VALUES)
    keys = [*content] if isinstance(content, dict) else [*range(len(content))]
    key = chance.choice(keys)
    if chance.random() < 0.05:
        del content[key]
    else:
        content[key] = hostile(content[key], chance)
    return content


def damage(path: Path, chance: random.Random) -> None:
    """Makes a file of a run another one: of other values, or none at all."""
    if chance.random() < 0.1:
        junk = b"[" * 100_000, b"\xff\xfe", b"", b"null\n", b'{"a":' * 3000 + b"1" + b"}" * 3000
        path.write_bytes(chance.choice(junk) + b"\n")
    elif chance.random() < 0.05:
        path.unlink()
        path.mkdir()
    elif path.suffix == ".jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        for _ in range(chance.randint(1, 3)):
            number = chance.randrange(len(lines))
            lines[number] = json.dumps(hostile(json.loads(lines[number]), chance))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        content = hostile(json.loads(path.read_bytes()), chance)
        path.write_text(json.dumps(content), encoding="utf-8")


DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("config.json", '"rounds": 3', '"rounds": 1e12', "config.json: load.rounds: must be a "),
        ("config.json", '"rounds": 3', f'"rounds": {DEEP}', "config.json: Invalid JSON: recursion"),
        ("ledger.jsonl", '"end": 1', '"end": Infinity, "x": 1', "ledger.jsonl:1: end: "),
        ("ledger.jsonl", '"status": 200', f'"status": {2**99}, "due": -1', "ledger.jsonl:1: due: "),
        ("divergence.json", '"case": "', '"case": [], "x": "', "divergence.json: "),
        ("divergence.json", '"case": "', f'"case": {DEEP}, "x": "', "divergence.json: "),
        ("counters.jsonl", '"drafts": ', '"drafts": NaN, "x": ', ":1: counters.drafts: "),
    ],
)
def test_what_cannot_be_true_is_named_by_its_place(
    runs: dict[str, Path],
    tmp_path: Path,
    benchmark: Benchmark,
    name: str,
    old: str,
    new: str,
    message: str,
) -> None:
    shutil.copytree(runs["read"], tmp_path / "run")
    text = (tmp_path / "run" / name).read_text("utf-8")
    assert old in text
    (tmp_path / "run" / name).write_text(text.replace(old, new, 1), "utf-8")
    assert message in benchmark("read", str(tmp_path / "run")).refusal()


@pytest.mark.parametrize("command", ["read", "report", "compare", "advise", "merge"])
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
def test_whatever_a_folder_has_nothing_ends_in_a_traceback(
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    benchmark: Benchmark,
    command: str,
    seed: int,
) -> None:
    chance, folder = random.Random(seed), tmp_path / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(runs[command], folder)
    files = [path for path in folder.rglob("*.json*") if path.stat().st_size]
    files = sorted(path for path in files if "llmperf" not in path.parts or seed % 9 == 0)
    damage(chance.choice(files), chance)
    old = [str(runs[command])] if command == "compare" else []
    if EXAMPLES < 100 or seed % 5:  # figures take longer than all else
        monkeypatch.setattr("spectap.report.page.draw", lambda run: ())
    status, _, err = benchmark(command, *old, str(folder))
    assert status in (0, 1, 2, 3)
    assert all(line.startswith("spectap: ") for line in err.splitlines())
    assert (status == 2) == bool(err)
