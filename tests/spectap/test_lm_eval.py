"""lm-eval's files: which questions each variant answered correctly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectap.answer import Score, read_scores
from spectap.errors import JournalError

NAME = "samples_gsm8k_2026-11-22T12-30-05.123456.jsonl"


def sample(question: int, correct: float, **changes: Any) -> dict[str, Any]:
    """What is used of a line, and some of what is not."""
    return {
        "doc_id": question,
        "doc": {"question": "How many?", "answer": "Some.\n#### 18"},
        "target": "Some.\n#### 18",
        "resps": [["He has 18.\n#### 18"]],
        "filtered_resps": ["18"],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "exact_match": correct,
    } | changes


def write(run_dir: Path, variant: str, *samples: dict[str, Any], name: str = NAME) -> Path:
    path = run_dir / "quality" / variant / "Qwen__Qwen3-32B" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(fields)}\n" for fields in samples))
    return path


def test_each_question_has_a_score_by_the_line_that_the_instruction_asks_for(
    tmp_path: Path,
) -> None:
    write(tmp_path, "Base", sample(0, 1.0), sample(0, 1.0, filter="flexible-extract"))
    write(tmp_path, "SD", sample(0, 0.0), sample(0, 1.0, filter="flexible-extract"), sample(3, 1.0))
    assert read_scores(tmp_path) == [
        Score("GSM8K", "Base", "0", True),
        Score("GSM8K", "SD", "0", False),
        Score("GSM8K", "SD", "3", True),
    ]


def test_a_score_is_of_the_evaluation_that_noted_its_file(tmp_path: Path) -> None:
    for variant in ("Base", "SD"):
        write(tmp_path, variant, sample(0, 1.0))
    noted = {"id": "quality-x", "ended": "2026-11-22T12:31:00Z", "files": []}
    noted["files"] = [f"{variant}/Qwen__Qwen3-32B/{NAME}" for variant in ("Base", "SD")]
    (tmp_path / "quality" / "evaluation.json").write_text(f"{json.dumps(noted)}\n")
    assert [str(score.evaluation) for score in read_scores(tmp_path)] == [
        "evaluation quality-x, ended 2026-11-22 12:31 UTC"
    ] * 2
    # A later one's, put there by hand: the note is not of it.
    write(tmp_path, "SD", sample(0, 1.0), name=NAME.replace("T12", "T13"))
    assert [score.evaluation is None for score in read_scores(tmp_path)] == [False, True]


def test_the_newest_evaluation_of_a_variant_counts(tmp_path: Path) -> None:
    write(tmp_path, "SD", sample(0, 1.0))
    write(tmp_path, "SD", sample(0, 0.0), name=NAME.replace("T12", "T09"))
    # Another model's folder, as after a copy of a whole prefix, sorts before it and is older.
    older = write(tmp_path, "SD", sample(1, 0.0), name=NAME.replace("2026", "2025"))
    (tmp_path / "quality" / "SD" / "A").mkdir()
    older.rename(tmp_path / "quality" / "SD" / "A" / older.name)
    # What is not lm-eval's is left alone.
    (older.parent / "samples_of_mine.jsonl").write_text("no JSON\n")
    assert read_scores(tmp_path) == [Score("GSM8K", "SD", "0", True)]


def test_a_line_of_another_kind_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "SD", sample(0, 1.0), {"doc_id": 1, "filter": "strict-match"})
    with pytest.raises(JournalError, match=f"{path.name}:2: exact_match: Field required"):
        read_scores(tmp_path)
    (tmp_path / "quality" / "evaluation.json").write_text("{}\n")
    with pytest.raises(JournalError, match=r"evaluation\.json:1: id: Field required"):
        read_scores(tmp_path)
