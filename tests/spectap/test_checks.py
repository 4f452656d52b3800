"""Whether an answer has the form that its prompt asks for."""

from __future__ import annotations

import ast
import json
import textwrap
from typing import Any

import pytest
from hypothesis import example, given, settings
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

# No "<", which may open thoughts, and no half of a character.
texts = st.text(st.characters(exclude_characters="<", codec="utf-8"))
objects = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
        lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
        max_leaves=5,
    ),
)


def prompt(form: Form | None, schema: Any = WEATHER) -> Prompt:
    function = {"name": "weather"} | ({"parameters": schema} if schema is not None else {})
    tools = ({"type": "function", "function": function},) if form is Form.TOOL_CALL else ()
    return Prompt(name="p", messages=({"role": "user", "content": "?"},), tools=tools, form=form)


def text(content: str, finish: str | None = "stop") -> Answer:
    return Answer("p", content, (), finish)


def calls(*named: tuple[str, str], content: str = "") -> Answer:
    return Answer("p", content, tuple(ToolCall(*call) for call in named), "tool_calls")


def code(content: str) -> tuple[bool | None, str]:
    return check(prompt(Form.CODE), text(content))


def called(arguments: str, schema: Any = WEATHER) -> tuple[bool | None, str]:
    return check(prompt(Form.TOOL_CALL, schema), calls(("weather", arguments)))


def test_a_prompt_without_a_form_asks_for_nothing() -> None:
    assert check(prompt(None), text("whatever")) == (None, "")


@pytest.mark.parametrize("form", Form)
def test_what_was_cut_off_is_not_judged(form: Form) -> None:
    assert check(prompt(form), text('{"a": ', "length")) == (None, CUT_OFF)


def test_a_good_tool_call() -> None:
    both = calls(("weather", GOOD), ("weather", '{"city": "Rome"}'), content="Let me look.")
    assert check(prompt(Form.TOOL_CALL), both) == (True, "")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (text("It is sunny."), "calls no tool"),
        (calls(("whether", GOOD)), "calls a tool that it was not given"),
        (calls(("weather", GOOD), ("", GOOD)), "calls a tool that it was not given"),
        (calls(("weather", '{"city": "Bern"')), "weather: its arguments are no JSON: column "),
        (calls(("weather", '["Bern"]')), "weather: its arguments are no JSON object"),
        (calls(("weather", "{}")), "weather: breaks required"),
        (calls(("weather", '{"city": 4}')), "weather: `city`: breaks type"),
        (calls(("weather", GOOD), ("weather", "{}")), "weather: breaks required"),
    ],
)
def test_a_broken_tool_call(answer: Answer, problem: str) -> None:
    valid, reason = check(prompt(Form.TOOL_CALL), answer)
    assert valid is False
    assert problem in reason


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "dict"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#/nowhere"},
        {"properties": {"city": {"pattern": "("}}},
        "no schema",
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
        {"propertyNames": {"maxLength": 9}, "patternProperties": {"^(.+)+$": {"type": "null"}}},
        {"additionalProperties": False, "patternProperties": {"^city$": {}}},
        {"properties": {"city": {"not": {"pattern": "^a$"}}}},
        {"properties": {"city": {"oneOf": [{"pattern": "^a"}, {"pattern": "^b"}]}}},
    ],
)
def test_a_pattern_is_neither_matched_nor_held_against_the_answer(schema: Any) -> None:
    assert called(json.dumps({"city": "a" * 60 + "!"}), schema) == (True, "")


def test_what_stands_beside_a_pattern_is_checked() -> None:
    schema = {"properties": {"city": ENDLESS, "pattern": {"type": "string"}}}
    assert called('{"city": 4}', schema) == (False, "weather: `city`: breaks type")
    assert called('{"pattern": 4}', schema) == (False, "weather: `pattern`: breaks type")


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


@given(objects)
@settings(max_examples=20)
def test_json_is_found_with_and_without_a_fence(value: dict[str, Any]) -> None:
    written = json.dumps(value, indent=1)
    for content in (
        written,
        f"Here it is:\n\n```json\n{written}\n```\nAnything else?",
        f"```json\n{written}",
        f"<think>Is it {{? or ```\n</think>\n\n{written}",
        f"it may be {{\n</think>{written}",
    ):
        assert check(prompt(Form.JSON), text(content)) == (True, ""), content


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{'a': 1}", "is no JSON: "),
        ('{"a": 1} that is all', "is no JSON: column 10"),
        ('{\n "a": b}', "is no JSON: line 2, column 7"),
        ("[" * 100_000, "is no JSON: "),
        ("```json\n{'a': 1}\n```", "its fenced block is no JSON: "),
        ("```\n1\n```\n```\n2\n```", "has 2 fenced blocks"),
        ('<think>and so on {"a": 1}', "is no JSON: "),
    ],
)
def test_what_is_no_json(content: str, problem: str) -> None:
    valid, reason = check(prompt(Form.JSON), text(content))
    assert valid is False
    assert reason.startswith(problem)


@pytest.mark.parametrize(
    "content",
    [
        FUNCTION,
        f"```python\n{FUNCTION}```",
        f"Sure!\n\n```python\n{FUNCTION}```\n\nIt adds.\n\n```\n$ python add.py\n```",
        f"First run this:\n```sh\npip install x\n```\nThen:\n```py\n{FUNCTION}```",
        "1. So:\n   ```python title=add.py\n" + textwrap.indent(FUNCTION, "   ") + "   ```",
        f"```python\n{FUNCTION}",
        "    total = a + b\n    return total\n",
        "\n    return 1",
        "</think>\n\n    return 1",
        "\r\n    x = 1\r\n\r\n    return x\r\n",
        f"<think>\ndef add(:\n</think>\n\n```python\n{FUNCTION}```",
        'import re\nre.match("\\d", "1") is 1',
    ],
)
def test_a_program(content: str) -> None:
    assert code(content) == (True, "")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is empty"),
        ("<think>def f(): pass", "is empty"),
        (FUNCTION.replace(":", "", 1), "is no Python: line 1"),
        (FUNCTION.replace("    return", "  return"), "is no Python: line 3"),
        (f"```python\n{FUNCTION}return (\n```", "is no Python: line 4"),
        ("I cannot do that.", "is no Python: "),
        ("a = '\x00'", "is no Python"),
        ("(" * 1000, "is no Python: "),
    ],
)
def test_what_is_no_program(content: str, problem: str) -> None:
    valid, reason = code(content)
    assert valid is False
    assert reason.startswith(problem), reason


@pytest.mark.parametrize("content", ["x = 1\n" * 100_000, "lambda: " * 20_000 + "1", "-" * 90_000])
def test_a_program_beyond_the_parser_is_not_judged(content: str) -> None:
    valid, reason = code(content)
    assert valid is None
    assert reason.endswith("to be parsed")


@given(st.integers(0, len(FUNCTION)), st.characters())
@settings(max_examples=40)
@example(22, "\\")  # an odd escape: Python warns of it, and the tests make errors of warnings
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_a_program_is_valid_if_python_parses_it(position: int, character: str) -> None:
    program = (FUNCTION[:position] + character + FUNCTION[position:]).strip()
    try:
        ast.parse(program)
        parsed = True
    except (SyntaxError, ValueError):
        parsed = False
    assert code(program)[0] is parsed
