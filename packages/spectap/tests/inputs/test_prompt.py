"""Files of prompts: what they may hold, and how the rest is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from spectap.errors import ConfigError
from spectap.inputs.prompt import Form, parse, read_content

SAY_IT = [{"role": "user", "content": "say it"}]


def line(**fields: Any) -> str:
    return json.dumps({"prompt": "say it"} | fields)


def tool(**function: Any) -> dict[str, Any]:
    fields = {"name": "add", "parameters": {"type": "object", "properties": {}}} | function
    return {"type": "function", "function": fields}


IMAGE = [{"role": "user", "content": [{"type": "image_url"}]}]
FLOAT = {"type": "object", "properties": {"a": {"anyOf": [{"items": {"type": ["float"]}}]}}}
PARAMETERS = "tools[0].function.parameters"


def refusal(*lines: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse("\n".join(lines).encode(), "f.jsonl")
    return str(refused.value)


def test_a_line_of_text_is_a_prompt() -> None:
    prompts = parse(b"\xef\xbb\xbfWhy?\r\n\r\n  How so? \n", "f.txt")
    assert [prompt.name for prompt in prompts] == ["line-1", "line-3"]
    assert [prompt.messages for prompt in prompts] == [
        ({"role": "user", "content": "Why?"},),
        ({"role": "user", "content": "How so?"},),
    ]
    assert {prompt.form for prompt in prompts} == {None}


def test_a_line_of_json_says_more() -> None:
    system = {"role": "system", "content": "Be brief."}
    parts = {"role": "user", "content": [{"type": "text", "text": "say it"}]}
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    calls = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "3"},
    ]
    lines = (
        line(name="one", max_tokens=7, answer="json", **{"class": "short"}),
        json.dumps({"messages": [system, parts, *calls], "tools": [tool()]}),
        line(answer="code", max_tokens=None, tools=None),
        line(answer=-1.5),
    )
    first, second, third, fourth = parse("\n".join(lines).encode(), "f")
    assert (first.name, first.prompt_class, first.max_tokens) == ("one", "short", 7)
    assert first.messages == tuple(SAY_IT)
    assert (second.name, second.prompt_class, second.max_tokens) == ("line-2", "", None)
    assert (second.tools, second.messages) == ((tool(),), (system, parts, *calls))
    assert (first.form, second.form, third.form) == (Form.JSON, Form.TOOL_CALL, Form.CODE)
    assert (fourth.form, fourth.number, third.number) == (Form.NUMBER, -1.5, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("say it", "is not JSON: Expecting value at column 1"),
        ('{"prompt": "a", "prompt": "b"}', "is not JSON: prompt is there twice"),
        ('{"prompt": "\\ud800"}', "is not JSON: has half a character, a lone surrogate"),
        ('{"prompt": NaN}', "is not JSON: Out of range float values are not JSON compliant"),
        ("{}", "needs either prompt or messages"),
        (
            line(prompt=None, messages=[{"role": "bot"}]),
            'messages[0].role = "bot": must be \'system',
        ),
        (line(max_tokens=0), "max_tokens = 0: must be greater than or equal to 1"),
        (line(name="n" * 101), f'name = "{"n" * 76}...: must have at most 100 characters'),
        (line(answer="json", tools=[tool()]), "answer: not with tools"),
        (line(answer="18"), 'answer = "18": must be "json", "code", or a number without quotes,'),
        (line(answer=True), "answer = true: must be "),
        (line(answer=10**400), "answer = 1000"),
        (line(tools=[tool(), tool()]), "tools: add is there twice"),
        (line(tools=[tool(parameters={"type": "dict"})]), f"{PARAMETERS}: must be a JSON Schema"),
        (
            line(tools=[tool(parameters=FLOAT)]),
            f"{PARAMETERS}: $.properties.a.anyOf[0].items.type: ['float'] is not valid under",
        ),
        (
            line(tools=[tool(p={})]),
            "tools[0].function.p: unknown key; allowed: name, description, ",
        ),
        (
            line(maxtokens=9),
            "maxtokens = 9: unknown key; did you mean max_tokens? allowed: prompt, ",
        ),
    ],
)
def test_a_bad_line_is_one_line_with_its_number(text: str, message: str) -> None:
    assert refusal(line(), "", text).startswith(f"f.jsonl:3: {message}")


def test_all_bad_lines_are_named_in_order() -> None:
    assert refusal("x", line(), line(max_tokens=0), line(name="line-2")).splitlines() == [
        "f.jsonl:1: is not JSON: Expecting value at column 1",
        "f.jsonl:3: max_tokens = 0: must be greater than or equal to 1",
        'f.jsonl:4: name = "line-2": is the name of line 2 too',
    ]
    many = refusal(*["x"] * 30).splitlines()
    assert many[20:] == ["f.jsonl: and 10 more"]


def test_a_file_without_a_prompt(tmp_path: Path) -> None:
    for content in (b"", b"\n \n"):
        with pytest.raises(ConfigError, match=r"^f: has no prompt: it is empty$"):
            parse(content, "f")
    # A line of JSON makes the file JSON.
    with pytest.raises(ConfigError, match=r"^f:1: is not JSON: Expecting value at column 1$"):
        parse(b'Why?\n{"prompt": "How so?"}', "f")
    with pytest.raises(ConfigError, match=r"^f:2: is not UTF-8: invalid start byte$"):
        parse(b"a\nb\xff", "f")
    with pytest.raises(ConfigError, match="none: cannot be read: No such file or directory"):
        read_content(tmp_path / "none")
