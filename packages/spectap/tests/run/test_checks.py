"""Answers: their form, and their lines in answers.jsonl."""

import json
import textwrap
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectap.inputs.prompt import Form, Prompt
from spectap.records import journal
from spectap.records.answer import (
    Answer,
    CheckedAnswer,
    ToolCall,
)
from spectap.records.journal import Journal
from spectap.run.checks import CUT_OFF, check, checked
from tests import samples

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
    return samples.prompt(tools=tools, form=form)


def text(content: str, finish: str | None = "stop") -> Answer:
    return Answer("p", content, (), finish)


def calls(*named: tuple[str, str], content: str = "") -> Answer:
    return Answer("p", content, tuple(ToolCall(*call) for call in named), "tool_calls")


ANOTHER = "its last number is another"


@pytest.mark.parametrize(
    ("content", "number", "problem"),
    [
        ("3 boxes of 6 hold 18.", 18, ""),
        ("<think>5</think>It is **18**", 18, ""),
        ("\\boxed{18.0}", 18, ""),
        ("$18.", 18, ""),
        ("between 17-18", 18, ""),
        ("18 of 1,800", 18, ANOTHER),
        ("It is -18", 18, ANOTHER),
        ("It is \u221218", 18, ANOTHER),
        ("1.8e1", 18, ""),
        (r"So \boxed{18} boxes, 3 a week.", 18, ""),
        ("#### 18\n\n[1]", 18, ""),
        (r"\boxed{1{,}018}", 18, ANOTHER),
        ("H2O has .5 of 18", 18, ""),
        ("eighteen", 18, "has no number"),
        ("9" * 5000, 18, ANOTHER),
        (r"\boxed{1{,}234}", 1234, ""),
        (r"\boxed{1,\!234}", 1234, ""),
        (r"1\,234", 1234, ""),
        ("-$5", -5, ""),
        (r"-\$1,005.50", -1005.5, ""),
        ("x is -.5", -0.5, ""),
    ],
)
def test_a_number_is_the_last_of_the_answer(content: str, number: float, problem: str) -> None:
    asked = samples.prompt(form=Form.NUMBER, number=number)
    assert check(asked, text(content)) == (not problem, problem)


def test_nothing_is_said_of_what_may_be_anything_and_of_what_was_cut_off() -> None:
    assert check(prompt(None), text("whatever")) == (None, "")
    for form in Form:
        assert check(prompt(form), text('{"a": ', "length")) == (None, CUT_OFF)


ENDLESS = {"type": "string", "pattern": "^(a+)+$"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
BESIDE = {"properties": {"city": ENDLESS, "pattern": {"type": "string"}}}
STOP = {"type": "object", "additionalProperties": {"type": "integer"}}


LONG = json.dumps({"city": "a" * 60 + "!"})
REFERENCE = {"properties": {"city": {"$ref": "#/$defs/a"}}, "$defs": {"a": ENDLESS}}


@pytest.mark.parametrize(
    ("schema", "arguments", "verdict"),
    [
        # They cannot be read, which is not held against the answer.
        ({"type": "dict"}, LONG, (True, "")),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, LONG, (True, "")),
        ({"properties": {"city": {"pattern": "("}}}, LONG, (True, "")),
        (None, LONG, (True, "")),
        # A pattern is not matched.
        ({"properties": {"city": ENDLESS}}, LONG, (True, "")),
        ({"$schema": DIALECT} | REFERENCE, LONG, (True, "")),
        ({"additionalProperties": False, "patternProperties": {"^city$": {}}}, LONG, (True, "")),
        ({"properties": {"city": {"not": {"pattern": "^a$"}}}}, LONG, (True, "")),
        # What stands beside a pattern is checked.
        (BESIDE, '{"city": 4}', (False, "weather: `city`: breaks type")),
        (BESIDE, '{"pattern": 4}', (False, "weather: `pattern`: breaks type")),
        # A place is named as the schema names it.
        (
            {"properties": {"stops": {"items": STOP}}},
            '{"stops": [{}, {"secret": "x"}]}',
            (False, "weather: `stops`: breaks type"),
        ),
        # What nobody expected is no verdict.
        ({"default": {1, 2}}, GOOD, (None, "could not be checked: TypeError")),
    ],
)
def test_a_schema_is_held_against_the_answer(schema: Any, arguments: str, verdict: object) -> None:
    asked = prompt(Form.TOOL_CALL, schema)
    assert check(asked, calls(("weather", arguments))) == verdict
    assert check(asked, calls(("weather", '{"city": ')))[0] is False


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
NO_JSON = "is not JSON: "
ARGUMENTS = "weather: its arguments are"


@pytest.mark.parametrize(
    ("form", "content", "problem"),
    [
        (Form.JSON, VALUE, ""),
        (Form.JSON, f"Here it is:\n\n```json\n{VALUE}\n```\nAnything else?", ""),
        (Form.JSON, f"<think>Is it {{? or ```\n</think>\n\n{VALUE}", ""),
        (Form.JSON, "{'a': 1}", NO_JSON),
        (Form.JSON, '{"a": 1} that is all', f"{NO_JSON}column 10"),
        (Form.JSON, "[" * 100_000, NO_JSON),
        (Form.JSON, "```\n1\n```\n```\n2\n```", "has 2 fenced blocks"),
        (Form.JSON, '<think>and so on {"a": 1}', NO_JSON),
        (Form.CODE, FUNCTION, ""),
        (Form.CODE, f"```python\n{FUNCTION}```", ""),
        (
            Form.CODE,
            f"Sure!\n\n```python\n{FUNCTION}```\n\nIt adds.\n\n```\n$ python add.py\n```",
            "",
        ),
        (Form.CODE, f"First run this:\n```sh\npip install x\n```\nThen:\n```py\n{FUNCTION}```", ""),
        (Form.CODE, f"1. So:\n   ```Python title=a\n{textwrap.indent(FUNCTION, '   ')}   ```", ""),
        (Form.CODE, "    total = a + b\n    return total\n", ""),
        (Form.CODE, "\r\n    x = 1\r\n\r\n    return x\r\n", ""),
        (Form.CODE, f"<think>\ndef add(:\n</think>\n\n```python\n{FUNCTION}```", ""),
        (Form.CODE, "<think>def f(): pass", "is empty"),
        (Form.CODE, FUNCTION.replace(":", "", 1), "is not Python: line 1"),
        (Form.CODE, f"```python\n{FUNCTION}return (\n```", "is not Python: line 4"),
        (Form.CODE, "I cannot do that.", "is not Python: "),
        (Form.CODE, "a = '\x00'", "is not Python"),
        (Form.CODE, "(" * 1000, "is not Python: "),
        (Form.TOOL_CALL, "It is sunny.", "calls no tool"),
        (Form.TOOL_CALL, calls(*[("weather", GOOD)] * 2, content="Let me look."), ""),
        (Form.TOOL_CALL, calls(("whether", GOOD)), "calls a tool that it was not given"),
        (Form.TOOL_CALL, calls(("weather", '{"city": "Bern"')), f"{ARGUMENTS} not JSON: column "),
        (Form.TOOL_CALL, calls(("weather", '["Bern"]')), f"{ARGUMENTS} not a JSON object"),
        (Form.TOOL_CALL, calls(("weather", '{"city": 4}')), "weather: `city`: breaks type"),
        (Form.TOOL_CALL, calls(("weather", GOOD), ("weather", "{}")), "weather: breaks required"),
    ],
)
def test_an_answer_that_has_a_form(form: Form, content: str | Answer, problem: str) -> None:
    valid, reason = check(prompt(form), text(content) if isinstance(content, str) else content)
    assert valid is not bool(problem)
    assert reason.startswith(problem)


@pytest.mark.parametrize("form", [Form.JSON, Form.CODE])
@pytest.mark.parametrize(
    "content", ["`" * 40_000, "```" + " " * 20_000 + "x" * 20_000, "```\n" + " \n" * 20_000]
)
def test_a_long_line_is_read_once(content: str, form: Form) -> None:
    before = time.process_time()
    check(samples.prompt(form=form), Answer("p", content, (), "stop"))
    assert time.process_time() - before < 1


@pytest.mark.parametrize("content", ["x = 1\n" * 100_000, "lambda: " * 20_000 + "1", "-" * 90_000])
def test_a_program_beyond_the_parser_is_not_judged(content: str) -> None:
    valid, reason = check(prompt(Form.CODE), text(content))
    assert valid is None
    assert reason.endswith("to be parsed")


TURN: dict[str, Any] = {"case": "set", "load": "rate-1", "round": 3, "attempt": 2}


def lines() -> list[CheckedAnswer]:
    """A turn in which SD's answer to prompt a is broken."""
    prompts = [samples.prompt("a", form=Form.JSON), samples.prompt("b")]
    answers = {
        "Base": [Answer("a", '{"x": 1}', (), "stop"), Answer("b", "one", (), "stop")],
        "SD": [Answer("b", "one", (), "stop"), Answer("a", '{"x": 2', (), None)],
    }
    return checked(samples.config(), answers, prompts, **TURN)


def test_each_answer_is_checked_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    assert [*journal.read(path, CheckedAnswer)] == []
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
    with Journal(path) as open_journal:
        for line in written:
            open_journal.append(line)
        # An earlier version noted more.
        open_journal.append(orjson.loads(orjson.dumps(written[0])) | {"same": None, "words": 2})
    assert [*journal.read(path, CheckedAnswer)] == [*written, written[0]]


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
    prompt = samples.prompt(tools=(tool,), form=form)
    answer = Answer("p", text, (ToolCall(name, text),), "stop")

    def line(keep: bool) -> str:
        config = samples.config(keep_answers=keep)
        (checked_answer,) = checked(config, {"SD": [answer]}, [prompt], **TURN)
        if form is Form.TOOL_CALL:
            assert (checked_answer.valid, bool(checked_answer.problem)) == (False, True)
        return orjson.dumps(checked_answer).decode()

    assert SECRET in line(keep=True)
    assert SECRET not in line(keep=False)
