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


def answer_of(content: str, *called: tuple[str, str], prompt: str = "p") -> Answer:
    return Answer(prompt, content, tuple(ToolCall(*call) for call in called), "stop")


@pytest.mark.parametrize(
    ("answer", "reference", "first"),
    [
        (answer_of("one two three"), answer_of("one two three"), None),
        (answer_of("one two three"), answer_of("one two four"), 3),
        (answer_of("one two"), answer_of("one two three"), 3),
        (answer_of(""), answer_of(""), None),
        (answer_of("if x:\n    y"), answer_of("if x:\n  y"), 3),
        (answer_of("one"), answer_of("one\n"), 1),
        (
            answer_of("see", ("f", '{"a": 1, "b": 2}')),
            answer_of("see", ("f", '{"b":2,"a":1}')),
            None,
        ),
        (answer_of("see", ("f", '{"a": 1}')), answer_of("see", ("g", '{"a": 1}')), 2),
        (answer_of("see", ("f", '{"a": 1}')), answer_of("see", ("f", '{"a": 2}')), 4),
        (answer_of("see", ("f", "{}")), answer_of("see"), 2),
    ],
)
def test_where_two_answers_part(answer: Answer, reference: Answer, first: int | None) -> None:
    assert parts_at(answer, reference) == parts_at(reference, answer) == first


@given(st.text(), st.text())
def test_other_text_parts_somewhere(text: str, reference: str) -> None:
    assert (parts_at(answer_of(text), answer_of(reference)) is None) == (text == reference)


@given(st.text())
def test_words_are_the_whole_text(text: str) -> None:
    assert "".join(words(answer_of(text))) == text


@given(answers, answers)
@settings(max_examples=30)
def test_a_digest_names_an_answer(answer: Answer, reference: Answer) -> None:
    assert (digest(answer) == digest(reference)) == (answer == reference)
    assert len(digest(answer)) == 64


def test_a_digest_stays_what_it_is() -> None:
    # It is compared between runs.
    answer = answer_of("It is 18.", ("f", "{}"))
    assert digest(answer)[:16] == "4d60e4d8aaea6f0a"


def lines(
    temperature: float | None = 0.0, keep_answers: bool = False
) -> dict[tuple[str, str], CheckedAnswer]:
    """A turn in which Base and SD differ at the second word of prompt a."""
    sampling = {} if temperature is None else {"temperature": temperature}
    config = samples.config(load=samples.load(sampling=sampling), keep_answers=keep_answers)
    one_two = answer_of("one two", prompt="b")
    answers = {
        "Base": [answer_of('{"x": 1}', prompt="a"), one_two],
        "SD": [one_two, answer_of('{"x": 2', prompt="a"), replace(one_two, content="again")],
    }
    checked_answers = checked(
        config, answers, PROMPTS, case="set", load="rate-1", round=3, attempt=2
    )
    assert {(each.case, each.load, each.round, each.attempt) for each in checked_answers} == {
        ("set", "rate-1", 3, 2)
    }
    assert {each.answer is not None for each in checked_answers} == {keep_answers}
    # Prompt b was sent twice to SD, and once to Base.
    assert (len(checked_answers), checked_answers[-1].same) == (5, None)
    return {(each.variant, each.prompt): each for each in checked_answers[:-1]}


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
    prompt = Prompt(
        name="p", messages=({"role": "user", "content": "?"},), tools=(tool,), form=form
    )
    answer = Answer("p", text, (ToolCall(name, text),), "stop")

    def line(keep: bool) -> str:
        config = samples.config(keep_answers=keep)
        turn: dict[str, Any] = {"case": "set", "load": "", "round": 1, "attempt": 1}
        (checked_answer,) = checked(config, {"SD": [answer]}, [prompt], **turn)
        if form is Form.TOOL_CALL:
            assert (checked_answer.valid, bool(checked_answer.problem)) == (False, True)
        return orjson.dumps(checked_answer).decode()

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
    isolated = [*first, *(each for each in second if each.variant == "SD")]
    assert {each.variant for each in last_attempts(isolated)} == {"SD"}
    assert {each.variant for each in last_attempts(isolated, apart=True)} == {"Base", "SD"}
