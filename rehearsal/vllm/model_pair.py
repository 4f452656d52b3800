"""The model pair, made once and reused: a folder with ``draft`` and ``target``."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from experiment import Experiment
from experiment.measurement import TestCase
from rehearsal.golden.performance import of_class, prompts_of
from rehearsal.processes import run
from rehearsal.setting import Layout
from spectap.config import Structure

BUILD_SECONDS: Final = 900.0

_PREDICTABLE: Final = 0.7
"""Classes that golden endpoints accept so many drafts of are answered with what is predictable."""

Turns = list[tuple[str, str]]
"""Roles and what they say."""

# Everything that determines the result.
_INPUTS: Final = (
    "rehearsal/vllm/build.py",
    "rehearsal/vllm/corpus.py",
    "rehearsal/vllm/parting.py",
    "rehearsal/vllm/requirements.txt",
    "spectap/load/requests.py",
)


def cases(experiment: Experiment) -> str:
    """The test cases that the pair is trained on, as ``build`` reads them.

    Of a set, each class is a case of its own. Raises RehearsalError.
    """
    tested = experiment.benchmark.test_cases
    return json.dumps([item for case in tested for item in _cases(experiment, case)])


def _cases(
    experiment: Experiment, case: TestCase
) -> Iterator[tuple[str | None, bool, list[Turns]]]:
    if case.is_line:
        yield case.line, case.structure is Structure.STRUCTURED, []
        return
    by_class: defaultdict[str, list[Turns]] = defaultdict(list)
    for prompt in prompts_of(experiment, case):
        by_class[prompt.prompt_class].append(
            [(str(turn["role"]), str(turn.get("content") or "")) for turn in prompt.messages]
        )
    for name, prompts in by_class.items():
        yield None, of_class(name) >= _PREDICTABLE, prompts


def key(experiment: Experiment, root: Path) -> str:
    """A hash of the inputs: sources, packages, test cases."""
    digest = hashlib.sha256(cases(experiment).encode())
    for name in _INPUTS:
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


def folder(experiment: Experiment, layout: Layout) -> Path:
    """Where the pair is, once it is made. Raises RehearsalError."""
    return layout.pairs / key(experiment, layout.root)


def make(experiment: Experiment, layout: Layout) -> None:
    """Makes the pair and shows the progress on the terminal. Raises ProcessError."""
    pair = folder(experiment, layout)
    unfinished = pair.with_suffix(f".{os.getpid()}")
    trained_on = layout.work / "pair-cases.json"
    trained_on.parent.mkdir(parents=True, exist_ok=True)
    trained_on.write_text(cases(experiment), encoding="utf-8")
    try:
        run(
            [str(layout.vllm), "-m", "rehearsal.vllm.build", str(unfinished), str(trained_on)],
            {**os.environ, "PYTHONPATH": str(layout.root), "HF_HUB_OFFLINE": "1"},
            layout.logs / "build.log",
            BUILD_SECONDS,
            errors_on_terminal=True,
            end_by=signal.SIGTERM,  # on SIGINT it would print a traceback
        )
        unfinished.replace(pair)  # one rename, so that the folder is always complete
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
