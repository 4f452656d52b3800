"""What is asked for decides what is answered, and the answer holds what it promises."""

from __future__ import annotations

import ast
import json
from typing import Any

import jsonschema

from rehearsal.golden.answers import reply

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 5},
        "unit": {"enum": ["C", "F"]},
        "days": {"type": "integer", "minimum": 3, "maximum": 4},
        "limits": {"type": "array", "items": {"type": "number"}, "minItems": 2},
        "place": {"type": "object", "properties": {"near": {"type": ["boolean", "null"]}}},
        "either": {"anyOf": [{"const": 7}, {"type": "string"}]},
    },
    "required": ["city", "unit", "days", "limits", "place", "either"],
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


def request(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]} | fields


def test_a_call_names_a_given_tool_and_keeps_its_schema() -> None:
    called = reply(request("How is it?", tools=[TOOL]), 200)
    assert (called.tool, called.finish) == ("weather", "tool_calls")
    jsonschema.validate(json.loads(called.text), SCHEMA)


def test_a_chosen_tool_is_called() -> None:
    other_tool = {"type": "function", "function": {"name": "other"}}
    choice = {"type": "function", "function": {"name": "weather"}}
    for text in "abcdef":
        chosen = reply(request(text, tools=[other_tool, TOOL], tool_choice=choice), 20)
        assert (chosen.tool, chosen.finish) == ("weather", "stop")
    assert reply(request("a", tools=[TOOL], tool_choice="none"), 20).tool is None


def test_json_where_json_is_asked_for() -> None:
    for body in (
        request("Answer in JSON."),
        request("Answer.", response_format={"type": "json_object"}),
    ):
        answer = reply(body, 30)
        assert json.loads(answer.text)["answer"]
        assert answer.finish == "stop"


def test_code_that_compiles_and_has_the_name_that_was_asked_for() -> None:
    text = reply(request("Go on:\n\ndef dump_json(value):\n    '''Writes JSON.'''"), 60).text
    assert text.startswith("```python\n")
    assert text.endswith("\n```")
    (function,) = ast.parse(text.strip("`").removeprefix("python")).body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "dump_json"


def test_words_go_on_to_the_longest_answer() -> None:
    answer = reply(request("Tell me."), 12)
    assert (answer.finish, answer.tool, len(answer.tokens)) == ("length", None, 12)
