"""The command: what it says, how it ends, and that nothing is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rehearsal.outcome import load_maker
from tests.conftest import edited
from tests.rehearsal.left import alive, descendants
from tests.synthesis import ROOT

COMMAND = [sys.executable, "-m", "rehearsal"]


def test_an_experiment_that_is_wrong_is_one_line() -> None:
    ended = subprocess.run(
        [*COMMAND, "experiments/nobody.yaml"], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("rehearsal: experiments/nobody.yaml:")
    assert ended.stderr.count("\n") == 1


def test_an_experiment_with_two_errors_is_two_lines(tmp_path: Path) -> None:
    changes = {"serving.tensor_parallel": 16, "benchmark.concurrency": 5, "benchmark.requests": 5}
    file = edited(tmp_path, changes)
    ended = subprocess.run([*COMMAND, file], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    first, second = ended.stderr.splitlines()
    place = rf"rehearsal: {re.escape(str(file))}:\d+: "
    assert re.match(rf"{place}serving\.tensor_parallel = 16: must be 32", first)
    assert re.match(rf"{place}benchmark\.concurrency = 5: must be at most", second)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(number: signal.Signals) -> None:
    # In the midst of a step that has processes of processes.
    process = subprocess.Popen(
        COMMAND, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    with process, process.stderr:
        for line in process.stderr:
            if line.startswith("[2/"):
                break
        started: set[int] = set()
        while len(started) < 3 and process.poll() is None:
            started = descendants(process.pid)
            time.sleep(0.05)
        os.kill(process.pid, number)
        said = process.stderr.read()
    assert process.returncode == 128 + number
    assert said == f"rehearsal: ended by {number.name}\n"
    assert alive(started) == set()


def test_the_load_names_its_maker(tmp_path: Path) -> None:
    assert load_maker(tmp_path) == "what does not say its name"
    for name, content in {"a": '{"driver": "closed-loop"}', "b": "{}"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "x_summary.json").write_text(content)
    assert load_maker(tmp_path) == "closed-loop, llmperf"
