"""The model pair, made once and kept: a folder with ``draft`` and ``target``."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Final

from benchmark.config import Structure
from experiment import Experiment
from rehearsal.layout import Layout
from rehearsal.process.processes import run

BUILD_SECONDS: Final = 900.0

# Everything that determines the result.
_INPUTS: Final = (
    "rehearsal/vllm/build.py",
    "rehearsal/vllm/corpus.py",
    "rehearsal/vllm/requirements.txt",
    "benchmark/load/texts.py",
)


def cases(experiment: Experiment) -> str:
    """The test cases that the pair is trained on, as an argument of ``build``."""
    return json.dumps(
        [
            (case.line, case.structure is Structure.STRUCTURED)
            for case in experiment.benchmark.test_cases
        ]
    )


def key(experiment: Experiment, root: Path) -> str:
    """A hash of the inputs: sources, packages, test cases."""
    digest = hashlib.sha256(cases(experiment).encode())
    for name in _INPUTS:
        digest.update(hashlib.sha256((root / name).read_bytes()).digest())
    return digest.hexdigest()[:16]


def find(experiment: Experiment, layout: Layout) -> Path | None:
    """The pair, or None if it was not made yet."""
    folder = layout.pairs / key(experiment, layout.root)
    return folder if folder.is_dir() else None


def make(experiment: Experiment, layout: Layout) -> Path:
    """Makes the pair and shows the progress on the terminal. Raises ProcessError."""
    folder = layout.pairs / key(experiment, layout.root)
    draft = folder.with_suffix(f".{os.getpid()}")
    command = [str(layout.vllm), "-m", "rehearsal.vllm.build", str(draft), cases(experiment)]
    try:
        run(
            command,
            {**os.environ, "PYTHONPATH": str(layout.root), "HF_HUB_OFFLINE": "1"},
            layout.logs / "build-pair.log",
            BUILD_SECONDS,
            errors_on_terminal=True,
            end_by=signal.SIGTERM,  # on SIGINT it would print a traceback
        )
        draft.replace(folder)  # one rename, so that the folder is always complete
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder
