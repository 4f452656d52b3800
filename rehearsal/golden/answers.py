"""What a golden endpoint answers: a call of a tool, JSON, code, or words.

Equal prompts get equal answers, whichever variant is asked. What has a form is whole and right,
unless it is to be corrupt.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from rehearsal.golden import asked, wire
from spectap.prompt import Form

_FUNCTION: Final = re.compile(r"\bdef (\w+)\(")
_JSON: Final = re.compile(r"\bjson\b", re.IGNORECASE)
_PYTHON: Final = re.compile(r"\bpython\b", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """One answer, token by token."""

    tokens: tuple[str, ...]
    """The text of each; of a call, of its arguments."""
    tool: str | None = None
    """The tool that is called, if one is."""
    finish: str = "length"
    """Why it ends: OpenAI's ``finish_reason``."""

    @property
    def text(self) -> str:
        """All tokens together."""
        return "".join(self.tokens)


def reply(body: dict[str, Any], tokens: int, corrupt: bool = False) -> Reply:
    """The answer to a request, of that many tokens."""
    prompt = asked.prompt(body)
    chance = random.Random(prompt)
    form = _form(body, prompt)
    if form is Form.TOOL_CALL:
        return _call(body, tokens, chance, corrupt)
    if form is Form.JSON:
        whole = json.dumps({"answer": _words(chance, tokens)}, ensure_ascii=False)
        return Reply(_cut(whole[:-1] if corrupt else whole, tokens), finish="stop")
    if form is Form.CODE:
        return Reply(_cut(_code(prompt, chance, tokens, corrupt), tokens), finish="stop")
    first = chance.randrange(wire.VOCABULARY)
    return Reply(tuple(wire.words(first + index, 1) for index in range(tokens)))


def _form(body: dict[str, Any], prompt: str) -> Form | None:
    if body.get("tools") and body.get("tool_choice") != "none":
        return Form.TOOL_CALL
    if "json" in str(body.get("response_format")):
        return Form.JSON
    # A program may be about JSON.
    if _FUNCTION.search(prompt):
        return Form.CODE
    if _JSON.search(prompt):
        return Form.JSON
    return Form.CODE if _PYTHON.search(prompt) else None


def _call(body: dict[str, Any], tokens: int, chance: random.Random, corrupt: bool) -> Reply:
    functions = [tool["function"] for tool in body["tools"]]
    named = body.get("tool_choice")
    if isinstance(named, dict):
        functions = [f for f in functions if f["name"] == named["function"]["name"]]
    function = chance.choice(functions)
    arguments = json.dumps(instance(function.get("parameters") or {}, chance), ensure_ascii=False)
    name = function["name"]
    if corrupt and chance.random() < 0.5:
        name += "_"
    elif corrupt:
        arguments = arguments[:-1]
    # Spaces at the end change no JSON, and give each token a text.
    text = arguments.ljust(tokens)
    # vLLM says "stop" where the client chose the tool.
    finish = "stop" if isinstance(named, dict) else "tool_calls"
    return Reply(_cut(text, tokens), tool=name, finish=finish)


def _code(prompt: str, chance: random.Random, tokens: int, corrupt: bool) -> str:
    asked_for = _FUNCTION.findall(prompt)
    value = "(values" if corrupt else "values"
    return (
        f"```python\ndef {asked_for[-1] if asked_for else 'answer'}(*values):\n"
        f"    #{_words(chance, tokens)}\n    return {value}\n```"
    )


def _words(chance: random.Random, count: int) -> str:
    return wire.words(chance.randrange(wire.VOCABULARY), count)


def _cut(text: str, count: int) -> tuple[str, ...]:
    """A text in ``count`` pieces of about equal length."""
    ends = [len(text) * index // count for index in range(count + 1)]
    return tuple(text[start:end] for start, end in pairwise(ends))


def instance(schema: Any, chance: random.Random) -> Any:
    """A value that a JSON Schema allows, as far as schemas of tools go."""
    if not isinstance(schema, dict):
        return "any"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    for either in ("anyOf", "oneOf", "allOf"):
        if schema.get(either):
            return instance(schema[either][0], chance)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object" | "dict":
            properties = schema.get("properties") or {}
            return {name: instance(value, chance) for name, value in properties.items()}
        case "array" | "tuple":
            count = max(1, schema.get("minItems", 1))
            return [instance(schema.get("items"), chance) for _ in range(count)]
        case "integer":
            return int(_number(schema, chance))
        case "number" | "float":
            return float(_number(schema, chance))
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            text = _words(chance, 3).strip()
            return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _number(schema: dict[str, Any], chance: random.Random) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    high = schema.get("maximum", max(low, schema.get("exclusiveMaximum", low + 10) - 1))
    return chance.randint(int(low), max(int(low), int(high)))
