"""The answers to prompts: what a run stores of them, and what lm-eval scored."""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from spectap import journal
from spectap.names import EVALUATION, QUALITY
from spectap.prompt import Form

FILTER: Final = "strict-match"
"""How lm-eval takes the number out of an answer to GSM8K: the one after ``####``, which the Job's
system instruction asks for. ``flexible-extract`` takes the last number of an answer cut short."""

_SAMPLES: Final = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_NAMES: Final = {"gsm8k": "GSM8K"}


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, as the server sent it; neither need be valid."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """One whole answer to a named prompt."""

    prompt: str
    content: str
    """All text, thoughts included."""
    tool_calls: tuple[ToolCall, ...]
    finish: str | None
    """OpenAI's ``finish_reason``; None where the server gave none."""


@dataclass(frozen=True)
class CheckedAnswer:
    """A line of ``answers.jsonl``: an answer, checked. The first fields are the ledger's."""

    variant: str
    case: str
    load: str
    round: int
    attempt: int
    prompt: str
    digest: str
    """SHA-256 of content and tool calls, in hexadecimal digits."""
    finish: str | None
    form: Form | None
    """The form that the answer had to have; None where it could be anything."""
    valid: bool | None
    """None where there is no form, and where the answer was cut off at its longest."""
    problem: str
    """Why it is not valid; empty where it is, or where nothing was checked."""
    answer: Answer | None
    """Stored where the experiment asks for it."""


@dataclass(frozen=True)
class Evaluation:
    """One execution of lm-eval on the variants, whose samples lie in a run's folder."""

    id: str
    ended: datetime
    """When its last file was written, in UTC."""
    files: tuple[str, ...]
    """Its samples, as paths in the folder: others that lie there are not of it."""

    def __str__(self) -> str:
        return f"evaluation {self.id}, ended {self.ended:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True)
class Score:
    """Whether a variant answered one question of an evaluation correctly."""

    task: str
    """Such as GSM8K."""
    variant: str
    question: str
    correct: bool
    evaluation: Evaluation | None = None
    """None where nobody noted it."""


def digest(answer: Answer) -> str:
    """SHA-256 of content and tool calls, as the server sent them, in hexadecimal digits."""
    calls = [[call.name, call.arguments] for call in answer.tool_calls]
    return hashlib.sha256(json.dumps([answer.content, calls]).encode()).hexdigest()


@dataclass(frozen=True)
class _Sample:
    """The used part of a line: lm-eval writes one for each question and filter."""

    doc_id: int
    filter: str
    exact_match: float


def read_scores(run_dir: Path) -> list[Score]:
    """Scores below ``quality/<variant>/`` in a run's folder; none where there are no files.

    Of several evaluations of a variant, the newest counts. Raises OSError and JournalError.
    """
    folder = run_dir / QUALITY
    evaluations = {
        folder / file: evaluation
        for evaluation in journal.read(folder / EVALUATION, Evaluation)
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
        for sample in journal.read(path, _Sample)
        if sample.filter == FILTER
    ]


def _newest(folder: Path) -> dict[tuple[str, str], Path]:
    newest: dict[tuple[str, str], tuple[str, Path]] = {}
    for path in sorted(folder.glob("*/**/samples_*.jsonl")):
        if name := _SAMPLES.fullmatch(path.name):
            key = path.relative_to(folder).parts[0], name["task"]
            newest[key] = max(newest.get(key, ("", path)), (name["date"], path))
    return {key: path for key, (_, path) in newest.items()}
