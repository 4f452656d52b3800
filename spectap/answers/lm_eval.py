"""lm-eval's files: which questions of an evaluation each variant answered correctly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from spectap import journal
from spectap.answer import Evaluation, Score
from spectap.names import EVALUATION, QUALITY

FILTER: Final = "strict-match"
"""How lm-eval takes the number out of an answer to GSM8K: the one after ``####``, which the Job's
system instruction asks for. ``flexible-extract`` takes the last number of an answer cut short."""

_FILE: Final = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_NAMES: Final = {"gsm8k": "GSM8K"}


@dataclass(frozen=True)
class _Sample:
    """What is used of a line: lm-eval writes one for each question and filter."""

    doc_id: int
    filter: str
    exact_match: float


_SAMPLE: Final = TypeAdapter(_Sample)
_EVALUATION: Final = TypeAdapter(Evaluation)


def read_scores(run_dir: Path) -> list[Score]:
    """What lies in a run's folder at ``quality/<variant>/``; nothing where nothing does.

    Of several evaluations of a variant, the newest counts. Raises OSError and JournalError.
    """
    folder = run_dir / QUALITY
    evaluations = {
        folder / file: evaluation
        for evaluation in journal.read(folder / EVALUATION, _EVALUATION)
        for file in evaluation.files
    }
    return [
        Score(
            _NAMES.get(task, task),
            variant,
            str(sample.doc_id),
            sample.exact_match == 1,
            evaluations.get(path),
        )
        for (variant, task), path in _newest(folder).items()
        for sample in journal.read(path, _SAMPLE)
        if sample.filter == FILTER
    ]


def _newest(folder: Path) -> dict[tuple[str, str], Path]:
    """The file of each variant and task."""
    newest: dict[tuple[str, str], tuple[str, Path]] = {}
    for path in sorted(folder.glob("*/**/samples_*.jsonl")):
        if name := _FILE.fullmatch(path.name):
            key = path.relative_to(folder).parts[0], name["task"]
            newest[key] = max(newest.get(key, ("", path)), (name["date"], path))
    return {key: path for key, (_, path) in newest.items()}
