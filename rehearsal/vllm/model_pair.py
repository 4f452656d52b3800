"""The model pair, made once and kept: a folder with ``draft`` and ``target``.

For its target an EAGLE3 head can be made, too, in a folder of its own.
"""

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
from rehearsal.golden.acceptances import of_class
from rehearsal.layout import Layout
from rehearsal.process.processes import run
from rehearsal.prompts import prompts_of
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

_HEAD_INPUT: Final = "rehearsal/vllm/head.py"


def cases(experiment: Experiment) -> str:
    """The test cases that the pair is trained on, as ``build`` reads them.

    Of a set, each class is a case of its own. Raises RehearsalError.
    """
    tested = experiment.benchmark.test_cases
    return json.dumps([one for case in tested for one in _cases(experiment, case)])


def _cases(
    experiment: Experiment, case: TestCase
) -> Iterator[tuple[str | None, bool, list[Turns]]]:
    if case.is_line:
        yield case.line, case.structure is Structure.STRUCTURED, []
        return
    by_class: defaultdict[str, list[Turns]] = defaultdict(list)
    for prompt in prompts_of(experiment, case):
        said = [(str(one["role"]), str(one.get("content") or "")) for one in prompt.messages]
        by_class[prompt.prompt_class].append(said)
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


def head(experiment: Experiment, layout: Layout) -> Path:
    """Where the head is, once it is made. Raises RehearsalError."""
    digest = hashlib.sha256((layout.root / _HEAD_INPUT).read_bytes()).hexdigest()
    return layout.pairs / f"{key(experiment, layout.root)}-eagle3-{digest[:8]}"


def make(experiment: Experiment, layout: Layout) -> None:
    """Makes the pair and shows the progress on the terminal. Raises ProcessError."""
    _make(experiment, layout, folder(experiment, layout), "rehearsal.vllm.build")


def make_head(experiment: Experiment, layout: Layout) -> None:
    """Makes the head of a pair that is there, likewise. Raises ProcessError."""
    pair = folder(experiment, layout)
    _make(experiment, layout, head(experiment, layout), "rehearsal.vllm.head", str(pair))


def _make(experiment: Experiment, layout: Layout, made: Path, module: str, *arguments: str) -> None:
    draft = made.with_suffix(f".{os.getpid()}")
    asked = layout.work / "pair-cases.json"
    asked.parent.mkdir(parents=True, exist_ok=True)
    asked.write_text(cases(experiment), encoding="utf-8")
    command = [str(layout.vllm), "-m", module, str(draft), str(asked), *arguments]
    try:
        run(
            command,
            {**os.environ, "PYTHONPATH": str(layout.root), "HF_HUB_OFFLINE": "1"},
            layout.logs / f"{module.rpartition('.')[2]}.log",
            BUILD_SECONDS,
            errors_on_terminal=True,
            end_by=signal.SIGTERM,  # on SIGINT it would print a traceback
        )
        draft.replace(made)  # one rename, so that the folder is always complete
    finally:
        shutil.rmtree(draft, ignore_errors=True)
