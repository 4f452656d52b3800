"""The answers of one turn, as the lines that ``answers.jsonl`` gets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import orjson
import pytest

from spectap.answer import Answer, CheckedAnswer, ToolCall
from spectap.answers.checked import last_attempts, read_checked
from spectap.answers.turn import checked, read_answers
from spectap.errors import JournalError
from spectap.journal import Journal
from spectap.prompt import Form, Prompt
from tests.spectap import samples

PROMPTS = tuple(
    Prompt(name=name, messages=({"role": "user", "content": "?"},), form=form)
    for name, form in (("a", Form.JSON), ("b", None))
)


def said(prompt: str, content: str, finish: str = "stop") -> Answer:
    return Answer(prompt, content, (), finish)


def lines(temperature: float | None = 0.0, **changes: Any) -> list[CheckedAnswer]:
    """Of a turn in which Base and SD part at the second word of prompt a."""
    sampling = {} if temperature is None else {"temperature": temperature}
    config = samples.config(load=samples.load(sampling=sampling), **changes)
    answers = {
        "Base": [said("a", '{"x": 1}'), said("b", "one two")],
        "SD": [said("b", "one two"), said("a", '{"x": 2')],
    }
    return checked(config, answers, PROMPTS, case="set", load="concurrency-2", round=3, attempt=2)


def only(found: list[CheckedAnswer], variant: str, prompt: str) -> CheckedAnswer:
    (line,) = (one for one in found if (one.variant, one.prompt) == (variant, prompt))
    return line


def test_each_answer_is_a_line() -> None:
    found = lines()
    assert len(found) == 4
    assert {(one.case, one.load, one.round, one.attempt) for one in found} == {
        ("set", "concurrency-2", 3, 2)
    }
    base = only(found, "Base", "a")
    assert (base.form, base.valid, base.problem) == (Form.JSON, True, "")
    assert (base.same, base.parts_at, base.words) == (None, None, 2)


def test_an_answer_is_compared_with_the_baselines_to_the_same_prompt() -> None:
    found = lines()
    broken = only(found, "SD", "a")
    assert (broken.valid, broken.same, broken.parts_at) == (False, False, 2)
    good = only(found, "SD", "b")
    assert (good.valid, good.same, good.parts_at) == (None, True, None)


@pytest.mark.parametrize("temperature", [0.7, None])
def test_answers_that_are_drawn_are_not_compared(temperature: float | None) -> None:
    found = lines(temperature)
    assert {one.same for one in found} == {None}
    assert only(found, "SD", "a").valid is False


@pytest.mark.parametrize("keep", [False, True])
def test_answers_are_kept_where_that_is_asked_for(keep: bool) -> None:
    kept = {one.answer is not None for one in lines(keep_answers=keep)}
    assert kept == {keep}


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
        ("f", f'["{SECRET}"]'),
        ("f", f'{{"n": "{SECRET}"}}'),
        ("f", f'{{"n": "{SECRET}'),
        ("f", f'{{"n": 1, "{SECRET}": 2}}'),
        ("f", f'{{"n": 1, "deep": [{{"{SECRET}": "{SECRET}"}}]}}'),
        ("f", f'{{"n": 1, "free": {{"{SECRET}": 1}}}}'),
        ("f", f'{{"n": 1, "never": "{SECRET}"}}'),
        ("f", f'{{"deep": "{SECRET}"}}'),
        ("f", f"x = 08{SECRET}"),
        ("f", f"from __future__ import {SECRET}"),
        ("f", f"print '{SECRET}'"),
        ("f", f"f'{{{SECRET} {SECRET}}}'"),
        ("f", f"def f({SECRET}, {SECRET}:"),
        ("f", f"```{SECRET}\n{SECRET} {SECRET}\n```\n```{SECRET}\n{{}}\n```"),
        ("f", f"<think>{SECRET}"),
    ],
)
def test_no_word_of_an_answer_is_left_where_none_is_kept(form: Form, name: str, text: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
    asked = Prompt(name="p", messages=({"role": "user", "content": "?"},), tools=(tool,), form=form)
    answer = Answer("p", text, (ToolCall(name, text),), "stop")

    def line(keep: bool) -> str:
        config = samples.config(keep_answers=keep)
        turn: dict[str, Any] = {"case": "set", "load": "", "round": 1, "attempt": 1}
        (found,) = checked(config, {"SD": [answer]}, [asked], **turn)
        if form is Form.TOOL_CALL:
            assert (found.valid, bool(found.problem)) == (False, True)
        return orjson.dumps(found).decode()

    assert SECRET in line(keep=True)
    assert SECRET not in line(keep=False)


def test_a_prompt_that_was_sent_twice_is_compared_twice() -> None:
    config = samples.config()
    sent = [said("b", "one"), said("b", "two")]
    found = checked(
        config,
        {"Base": sent[:1], "SD": sent},
        PROMPTS,
        case="set",
        load="",
        round=1,
        attempt=1,
    )
    assert [one.same for one in found] == [None, True, None]


def test_lines_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    assert read_checked(path) == []
    found = lines(keep_answers=True)
    with Journal(path) as journal:
        for line in found:
            journal.append(line)
    assert read_checked(path) == found


def test_what_the_driver_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "answers-SD.jsonl"
    assert read_answers(path) == []
    answer = said("a", "{}")
    path.write_bytes(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE) + b'{"prompt": "b"')
    assert read_answers(path) == [answer]
    path.write_bytes(b'{"prompt": "a"}\n')
    with pytest.raises(JournalError, match=r"answers-SD\.jsonl:1: content: Field required"):
        read_answers(path)


def test_the_last_attempt_at_a_turn_counts() -> None:
    second = lines()
    first = [dataclasses.replace(one, attempt=1) for one in second]
    elsewhere = [dataclasses.replace(one, load="rate-1") for one in first]
    assert last_attempts([*first, *elsewhere, *second]) == [*elsewhere, *second]
