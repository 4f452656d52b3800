"""The user's own prompts: read with the experiment, refused with it, carried by it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from experiment import ExperimentError, load
from tests.experiment.files import edited

FILE_CASE = {"name": "own", "file": "prompts.jsonl"}
CASE = "benchmark.test_cases.3"
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes an experiment with a file of prompts beside it; returns the experiment's path."""

    def write(lines: Iterable[Any], **case: Any) -> Path:
        text = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        (tmp_path / "prompts.jsonl").write_text("\n".join(text) + "\n", encoding="utf-8")
        path = tmp_path / "mine.yaml"
        path.write_text(edited({CASE: FILE_CASE | case}), encoding="utf-8")
        return path

    return write


def test_the_experiment_carries_the_file_as_it_is(write: Write, tmp_path: Path) -> None:
    lines = [{"prompt": "Hello", "class": "short"}, {"prompt": "Goodbye", "tools": [TOOL]}]
    experiment = load(write(lines))
    content = (tmp_path / "prompts.jsonl").read_bytes()
    file = experiment.prompt_files["prompts.jsonl"]
    assert (file.content, file.digest) == (content, hashlib.sha256(content).hexdigest())
    assert file.classes == {"short": 1, "": 1}
    assert experiment.prompts_of(experiment.benchmark.test_cases[3]) is file
    assert experiment.calls_tools
    assert not load(write(lines[:1])).calls_tools


def test_every_bad_line_is_named_with_its_number(write: Write, tmp_path: Path) -> None:
    bad = [{"prompt": "fine"}, "no JSON", {"prompt": " "}, {"prompt": "x", "tools": [{}]}]
    lines = _refused(write(bad)).split("\n")
    file = tmp_path / "prompts.jsonl"
    assert {line.partition(": ")[0] for line in lines} == {f"{file}:{n}" for n in (2, 3, 4)}


def test_classes_are_those_of_the_file(write: Write) -> None:
    path = write([{"prompt": "Hello", "class": "short"}], classes=["long"])
    assert ": benchmark.test_cases[3].classes[0] = " in _refused(path)
    assert _refused(path).endswith("must be one of short")


def _refused(path: Path) -> str:
    with pytest.raises(ExperimentError) as caught:
        load(path)
    return str(caught.value)
