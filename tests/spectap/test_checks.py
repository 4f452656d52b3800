"""Whether an answer has the form that its prompt asks for."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectap.answer import Answer, ToolCall
from spectap.checks import CUT_OFF, check
from spectap.prompt import Form, Prompt

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
GOOD = '{"city": "Bern", "days": 3}'

FUNCTION = 'def add(a, b):\n    """Adds."""\n    return a + b\n'


def prompt(form: Form | None, schema: Any = WEATHER) -> Prompt:
    function = {"name": "weather"} | ({"parameters": schema} if schema is not None else {})
    tools = ({"type": "function", "function": function},) if form is Form.TOOL_CALL else ()
    return Prompt(name="p", messages=({"role": "user", "content": "?"},), tools=tools, form=form)


def text(content: str, finish: str | None = "stop") -> Answer:
    return Answer("p", content, (), finish)


def calls(*named: tuple[str, str], content: str = "") -> Answer:
    return Answer("p", content, tuple(ToolCall(*call) for call in named), "tool_calls")


def called(arguments: str, schema: Any = WEATHER) -> tuple[bool | None, str]:
    return check(prompt(Form.TOOL_CALL, schema), calls(("weather", arguments)))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (calls(("weather", GOOD), ("weather", GOOD), content="Let me look."), ""),
        (text("It is sunny."), "calls no tool"),
        (calls(("whether", GOOD)), "calls a tool that it was not given"),
        (calls(("weather", '{"city": "Bern"')), "weather: its arguments are no JSON: column "),
        (calls(("weather", '["Bern"]')), "weather: its arguments are no JSON object"),
        (calls(("weather", '{"city": 4}')), "weather: `city`: breaks type"),
        (calls(("weather", GOOD), ("weather", "{}")), "weather: breaks required"),
    ],
)
def test_a_tool_call(answer: Answer, problem: str) -> None:
    valid, reason = check(prompt(Form.TOOL_CALL), answer)
    assert valid is not bool(problem)
    assert reason.startswith(problem)


def test_nothing_is_said_of_what_may_be_anything_and_of_what_was_cut_off() -> None:
    assert check(prompt(None), text("whatever")) == (None, "")
    for form in Form:
        assert check(prompt(form), text('{"a": ', "length")) == (None, CUT_OFF)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "dict"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"properties": {"city": {"pattern": "("}}},
        None,
    ],
)
def test_a_schema_that_cannot_be_read_is_not_held_against_the_answer(schema: Any) -> None:
    assert called(GOOD, schema) == (True, "")
    assert called('{"city": ', schema)[0] is False


ENDLESS = {"type": "string", "pattern": "^(a+)+$"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"city": ENDLESS}},
        {
            "$schema": DIALECT,
            "properties": {"city": {"$ref": "#/$defs/a"}},
            "$defs": {"a": ENDLESS},
        },
        {"additionalProperties": False, "patternProperties": {"^city$": {}}},
        {"properties": {"city": {"not": {"pattern": "^a$"}}}},
    ],
)
def test_a_pattern_is_neither_matched_nor_held_against_the_answer(schema: Any) -> None:
    assert called(json.dumps({"city": "a" * 60 + "!"}), schema) == (True, "")


def test_what_stands_beside_a_pattern_is_checked() -> None:
    schema = {"properties": {"city": ENDLESS, "pattern": {"type": "string"}}}
    for name in ("city", "pattern"):
        assert called(f'{{"{name}": 4}}', schema) == (False, f"weather: `{name}`: breaks type")


def test_what_nobody_expected_is_no_verdict() -> None:
    assert called(GOOD, {"default": {1, 2}}) == (None, "could not be checked: TypeError")


def test_a_place_is_named_as_the_schema_names_it() -> None:
    stop = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = {"properties": {"stops": {"items": stop}}}
    problem = "weather: `stops.1.*`: breaks type"
    assert called('{"stops": [{}, {"secret": "x"}]}', schema) == (False, problem)


@given(st.text(), st.sampled_from(Form))
@settings(max_examples=40)
def test_whatever_is_answered_gets_one_line_of_a_verdict(content: str, form: Form) -> None:
    for answer in (text(content), calls((content, content)), calls(("weather", content))):
        valid, problem = check(prompt(form), answer)
        assert (valid is True) == (problem == "")
        assert problem.isascii()
        assert problem.isprintable()
        assert len(problem) < 300


VALUE = '{\n "a": [1, {"b": null}]\n}'
NO_JSON = "is no JSON: "


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (VALUE, ""),
        (f"Here it is:\n\n```json\n{VALUE}\n```\nAnything else?", ""),
        (f"<think>Is it {{? or ```\n</think>\n\n{VALUE}", ""),
        ("{'a': 1}", NO_JSON),
        ('{"a": 1} that is all', f"{NO_JSON}column 10"),
        ("[" * 100_000, NO_JSON),
        ("```\n1\n```\n```\n2\n```", "has 2 fenced blocks"),
        ('<think>and so on {"a": 1}', NO_JSON),
    ],
)
def test_json(content: str, problem: str) -> None:
    valid, reason = check(prompt(Form.JSON), text(content))
    assert valid is not bool(problem)
    assert reason.startswith(problem)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (FUNCTION, ""),
        (f"```python\n{FUNCTION}```", ""),
        (f"Sure!\n\n```python\n{FUNCTION}```\n\nIt adds.\n\n```\n$ python add.py\n```", ""),
        (f"First run this:\n```sh\npip install x\n```\nThen:\n```py\n{FUNCTION}```", ""),
        (f"1. So:\n   ```Python title=a\n{textwrap.indent(FUNCTION, '   ')}   ```", ""),
        ("    total = a + b\n    return total\n", ""),
        ("\r\n    x = 1\r\n\r\n    return x\r\n", ""),
        (f"<think>\ndef add(:\n</think>\n\n```python\n{FUNCTION}```", ""),
        ("<think>def f(): pass", "is empty"),
        (FUNCTION.replace(":", "", 1), "is no Python: line 1"),
        (f"```python\n{FUNCTION}return (\n```", "is no Python: line 4"),
        ("I cannot do that.", "is no Python: "),
        ("a = '\x00'", "is no Python"),
        ("(" * 1000, "is no Python: "),
    ],
)
def test_a_program(content: str, problem: str) -> None:
    valid, reason = check(prompt(Form.CODE), text(content))
    assert valid is not bool(problem)
    assert reason.startswith(problem)


@pytest.mark.parametrize("content", ["x = 1\n" * 100_000, "lambda: " * 20_000 + "1", "-" * 90_000])
def test_a_program_beyond_the_parser_is_not_judged(content: str) -> None:
    valid, reason = check(prompt(Form.CODE), text(content))
    assert valid is None
    assert reason.endswith("to be parsed")
