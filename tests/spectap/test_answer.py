"""The answers of a turn with their lines in ``answers.jsonl``, and the scores of lm-eval."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from spectap.answer import (
    Answer,
    CheckedAnswer,
    Score,
    ToolCall,
    read_checked,
    read_scores,
)
from spectap.checks import checked
from spectap.errors import JournalError
from spectap.journal import Journal
from spectap.prompt import Form, Prompt
from tests.spectap import samples

TURN: dict[str, Any] = {"case": "set", "load": "rate-1", "round": 3, "attempt": 2}


def lines() -> list[CheckedAnswer]:
    """A turn in which SD's answer to prompt a is broken."""
    prompts = [
        Prompt(name=name, messages=({"role": "user", "content": "?"},), form=form)
        for name, form in (("a", Form.JSON), ("b", None))
    ]
    answers = {
        "Base": [Answer("a", '{"x": 1}', (), "stop"), Answer("b", "one", (), "stop")],
        "SD": [Answer("b", "one", (), "stop"), Answer("a", '{"x": 2', (), None)],
    }
    return checked(samples.config(), answers, prompts, **TURN)


def test_each_answer_is_checked_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    assert read_checked(path) == []
    written = lines()
    assert [
        (line.variant, line.prompt, line.form, line.valid, line.finish) for line in written
    ] == [
        ("Base", "a", Form.JSON, True, "stop"),
        ("Base", "b", None, None, "stop"),
        ("SD", "b", None, None, "stop"),
        ("SD", "a", Form.JSON, False, None),
    ]
    # Equal answers, equal digests: they stay what they are between versions.
    assert [line.digest[:4] for line in written] == ["5dd1", "fa6d", "fa6d", "f27b"]
    with Journal(path) as journal:
        for line in written:
            journal.append(line)
        # An earlier version noted more.
        journal.append(orjson.loads(orjson.dumps(written[0])) | {"same": None, "words": 2})
    assert read_checked(path) == [*written, written[0]]


SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "enum": [1, 2]},
        "deep": {"items": {"additionalProperties": {"const": 1}}},
        "free": {"propertyNames": {"maxLength": 3}, "minProperties": 1},
        "never": False,
    },
    "required": ["n"],
    "additionalProperties": False,
}
SECRET = "Zyxxy"


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (SECRET, "{}"),
        ("f", SECRET),
        ("f", f'{{"n": "{SECRET}"}}'),
        ("f", f'{{"n": 1, "deep": [{{"{SECRET}": "{SECRET}"}}]}}'),
        ("f", f"def f({SECRET}, {SECRET}:"),
        ("f", f"```{SECRET}\n{SECRET} {SECRET}\n```\n```{SECRET}\n{{}}\n```"),
        ("f", f"<think>{SECRET}"),
    ],
)
def test_no_word_of_an_answer_is_left_where_none_is_kept(form: Form, name: str, text: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
    prompt = Prompt(
        name="p", messages=({"role": "user", "content": "?"},), tools=(tool,), form=form
    )
    answer = Answer("p", text, (ToolCall(name, text),), "stop")

    def line(keep: bool) -> str:
        config = samples.config(keep_answers=keep)
        (checked_answer,) = checked(config, {"SD": [answer]}, [prompt], **TURN)
        if form is Form.TOOL_CALL:
            assert (checked_answer.valid, bool(checked_answer.problem)) == (False, True)
        return orjson.dumps(checked_answer).decode()

    assert SECRET in line(keep=True)
    assert SECRET not in line(keep=False)


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


def test_the_newest_answer_to_each_question_has_a_score_and_names_its_evaluation(
    tmp_path: Path,
) -> None:
    """By the number that the system instruction asks for."""
    write(tmp_path, "Base", sample(0, 1.0), sample(0, 0.0, filter="flexible-extract"))
    write(tmp_path, "SD", sample(0, 0.0), sample(3, 1.0))
    write(tmp_path, "SD", sample(0, 1.0), name=NAME.replace("T12", "T09"))
    # Another model's folder, as after a copy of a whole prefix, sorts before it and is older.
    older = write(tmp_path, "SD", sample(1, 0.0), name=NAME.replace("2026", "2025"))
    (tmp_path / "quality" / "SD" / "A").mkdir()
    older.rename(tmp_path / "quality" / "SD" / "A" / older.name)
    # What is not lm-eval's is left alone.
    (older.parent / "samples_of_mine.jsonl").write_text("no JSON\n")
    file = f"Base/Qwen__Qwen3-32B/{NAME}"
    noted = {"id": "quality-x", "ended": "2026-11-22T12:31:00Z", "files": [file]}
    (tmp_path / "quality" / "evaluation.json").write_text(f"{json.dumps(noted)}\n")
    base, *others = read_scores(tmp_path)
    assert str(base.evaluation) == "evaluation quality-x, ended 2026-11-22 12:31 UTC"
    assert [replace(base, evaluation=None), *others] == [
        Score("GSM8K", "Base", "0", True),
        Score("GSM8K", "SD", "0", False),
        Score("GSM8K", "SD", "3", True),
    ]


def test_a_line_of_another_kind_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "SD", sample(0, 1.0), {"doc_id": 1, "filter": "strict-match"})
    with pytest.raises(JournalError, match=f"{path.name}:2: exact_match: Field required"):
        read_scores(tmp_path)
    (tmp_path / "quality" / "evaluation.json").write_text("{}\n")
    with pytest.raises(JournalError, match=r"evaluation\.json:1: id: Field required"):
        read_scores(tmp_path)
