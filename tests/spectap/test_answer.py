"""The answers of a turn: how they differ, and the lines that ``answers.jsonl`` gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectap.answer import (
    Answer,
    CheckedAnswer,
    ToolCall,
    digest,
    parts_at,
    read_checked,
    words,
)
from spectap.checks import checked
from spectap.journal import Journal
from spectap.ledger import last_attempts
from spectap.prompt import Form, Prompt
from tests.spectap import samples

PROMPTS = tuple(
    Prompt(name=name, messages=({"role": "user", "content": "?"},), form=form)
    for name, form in (("a", Form.JSON), ("b", None))
)


calls = st.builds(ToolCall, st.text(), st.text())
answers = st.builds(Answer, st.just("p"), st.text(), st.lists(calls).map(tuple), st.none())


def said(content: str, *called: tuple[str, str], prompt: str = "p") -> Answer:
    return Answer(prompt, content, tuple(ToolCall(*call) for call in called), "stop")


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        (said("one two three"), said("one two three"), None),
        (said("one two three"), said("one two four"), 3),
        (said("one two"), said("one two three"), 3),
        (said(""), said(""), None),
        (said("if x:\n    y"), said("if x:\n  y"), 3),
        (said("one"), said("one\n"), 1),
        (said("see", ("f", '{"a": 1, "b": 2}')), said("see", ("f", '{"b":2,"a":1}')), None),
        (said("see", ("f", '{"a": 1}')), said("see", ("g", '{"a": 1}')), 2),
        (said("see", ("f", '{"a": 1}')), said("see", ("f", '{"a": 2}')), 4),
        (said("see", ("f", "{}")), said("see"), 2),
    ],
)
def test_where_two_answers_part(one: Answer, other: Answer, first: int | None) -> None:
    assert parts_at(one, other) == parts_at(other, one) == first


@given(st.text(), st.text())
def test_other_text_parts_somewhere(one: str, other: str) -> None:
    assert (parts_at(said(one), said(other)) is None) == (one == other)


@given(st.text())
def test_words_are_the_whole_text(text: str) -> None:
    assert "".join(words(said(text))) == text


@given(answers, answers)
@settings(max_examples=30)
def test_a_digest_names_an_answer(one: Answer, other: Answer) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert len(digest(one)) == 64


def test_a_digest_stays_what_it_is() -> None:
    # It is compared between runs.
    answer = said("It is 18.", ("f", "{}"))
    assert digest(answer)[:16] == "4d60e4d8aaea6f0a"


def lines(
    temperature: float | None = 0.0, keep_answers: bool = False
) -> dict[tuple[str, str], CheckedAnswer]:
    """Of a turn in which Base and SD differ at the second word of prompt a."""
    sampling = {} if temperature is None else {"temperature": temperature}
    config = samples.config(load=samples.load(sampling=sampling), keep_answers=keep_answers)
    one_two = said("one two", prompt="b")
    answers = {
        "Base": [said('{"x": 1}', prompt="a"), one_two],
        "SD": [one_two, said('{"x": 2', prompt="a"), replace(one_two, content="again")],
    }
    found = checked(config, answers, PROMPTS, case="set", load="rate-1", round=3, attempt=2)
    assert {(each.case, each.load, each.round, each.attempt) for each in found} == {
        ("set", "rate-1", 3, 2)
    }
    assert {each.answer is not None for each in found} == {keep_answers}
    # Prompt b was sent twice to SD, and once to Base.
    assert (len(found), found[-1].same) == (5, None)
    return {(each.variant, each.prompt): each for each in found[:-1]}


def test_each_answer_is_checked_and_compared_with_the_baseline_s_to_the_same_prompt() -> None:
    by_prompt = lines()
    base = by_prompt["Base", "a"]
    assert (base.form, base.valid, base.problem) == (Form.JSON, True, "")
    assert (base.same, base.parts_at, base.words) == (None, None, 2)
    broken, good = by_prompt["SD", "a"], by_prompt["SD", "b"]
    assert (broken.valid, broken.same, broken.parts_at) == (False, False, 2)
    assert (good.valid, good.same, good.parts_at) == (None, True, None)


@pytest.mark.parametrize("temperature", [0.7, None])
def test_answers_that_are_drawn_are_not_compared(temperature: float | None) -> None:
    by_prompt = lines(temperature)
    assert {each.same for each in by_prompt.values()} == {None}
    assert by_prompt["SD", "a"].valid is False


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
        ("f", f'{{"n": "{SECRET}'),
        ("f", f'{{"n": 1, "deep": [{{"{SECRET}": "{SECRET}"}}]}}'),
        ("f", f'{{"n": 1, "free": {{"{SECRET}": 1}}}}'),
        ("f", f'{{"n": 1, "never": "{SECRET}"}}'),
        ("f", f"from __future__ import {SECRET}"),
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


def test_lines_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    assert read_checked(path) == []
    written = [*lines(keep_answers=True).values()]
    with Journal(path) as journal:
        for line in written:
            journal.append(line)
    assert read_checked(path) == written


def test_the_last_attempt_at_a_turn_counts() -> None:
    second = [*lines().values()]
    first = [replace(each, attempt=1) for each in second]
    elsewhere = [replace(each, load="rate-2") for each in first]
    assert last_attempts([*first, *elsewhere, *second]) == [*elsewhere, *second]
    apart = [*first, *(each for each in second if each.variant == "SD")]
    assert {each.variant for each in last_attempts(apart)} == {"SD"}
    assert {each.variant for each in last_attempts(apart, apart=True)} == {"Base", "SD"}
