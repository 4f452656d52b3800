"""Whether two answers are the same, and where one parts from the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.answer import Answer, ToolCall
from spectap.answers.comparison import digest, parts_at, words

calls = st.builds(ToolCall, st.text(), st.text())
answers = st.builds(Answer, st.just("p"), st.text(), st.lists(calls).map(tuple), st.none())


def said(content: str, *called: tuple[str, str]) -> Answer:
    return Answer("p", content, tuple(ToolCall(*one) for one in called), "stop")


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        (said("one two three"), said("one two three"), None),
        (said("one two three"), said("one two four"), 3),
        (said("one two"), said("one two three"), 3),
        (said(""), said("one"), 1),
        (said(""), said(""), None),
        (said("if x:\n    y"), said("if x:\n  y"), 3),
        (said("one"), said("one\n"), 1),
        (said("see", ("f", '{"a": 1}')), said("see", ("f", '{"a": 1}')), None),
        (said("see", ("f", '{"a": 1, "b": 2}')), said("see", ("f", '{"b":2,"a":1}')), None),
        (said("see", ("f", '{"a": 1}')), said("see", ("g", '{"a": 1}')), 2),
        (said("see", ("f", '{"a": 1}')), said("see", ("f", '{"a": 2}')), 4),
        (said("see", ("f", '{"a": 1')), said("see", ("f", '{"a": 1}')), 4),
        (said("see", ("f", "{}")), said("see"), 2),
    ],
)
def test_where_two_answers_part(one: Answer, other: Answer, first: int | None) -> None:
    assert parts_at(one, other) == parts_at(other, one) == first


@given(answers)
def test_an_answer_is_the_same_as_itself(answer: Answer) -> None:
    assert parts_at(answer, answer) is None


@given(st.text(), st.text())
def test_other_text_parts_somewhere(one: str, other: str) -> None:
    assert (parts_at(said(one), said(other)) is None) == (one == other)


@given(st.text())
def test_words_are_the_whole_text(text: str) -> None:
    assert "".join(words(said(text))) == text


@given(answers, answers)
def test_a_digest_names_an_answer(one: Answer, other: Answer) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert len(digest(one)) == 64


def test_a_digest_stays_what_it_is() -> None:
    """It is compared between runs."""
    answer = said("It is 18.", ("f", "{}"))
    assert digest(answer)[:16] == "4d60e4d8aaea6f0a"
