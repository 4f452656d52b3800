"""Requests to a golden endpoint and its answers: a call of a tool, JSON, code, or words.

Equal prompts get equal answers, whichever variant is asked. An answer that has a form is complete
and valid.
"""

import json
import random
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from spectap.golden import wire
from spectap.prompt import Form

CHARACTERS_PER_TOKEN: Final = 4
"""The number that the built-in driver takes, too."""
DEFAULT_MAX_TOKENS: Final = 16

_FUNCTION: Final = re.compile(r"\bdef (\w+)\(")
_JSON: Final = re.compile(r"\bjson\b", re.IGNORECASE)
_PYTHON: Final = re.compile(r"\bpython\b", re.IGNORECASE)


def prompt_of(body: dict[str, Any]) -> str:
    """All text of a chat or a completion, tools included, as a chat template would join it."""
    if "messages" not in body:
        return str(body["prompt"])
    texts: list[str] = []
    for message in body["messages"]:
        content = message.get("content") or ""
        blocks = [{"text": content}] if isinstance(content, str) else content
        texts += [block.get("text", "") for block in blocks]
    return "\n".join([*texts, *map(json.dumps, body.get("tools") or ())]).strip()


def tokens_of(text: str) -> int:
    """How many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def length_of(body: dict[str, Any]) -> int:
    """The longest answer that is asked for, in tokens."""
    return int(body.get("max_tokens") or body.get("max_completion_tokens") or DEFAULT_MAX_TOKENS)


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
        return "".join(self.tokens)


def reply(body: dict[str, Any], tokens: int) -> Reply:
    """The answer to a request, of that many tokens."""
    prompt = prompt_of(body)
    chance = random.Random(prompt)
    form = None if body.get("ignore_eos") else _form(body, prompt)
    if form is Form.TOOL_CALL:
        functions = [tool["function"] for tool in body["tools"]]
        choice = body.get("tool_choice")
        if isinstance(choice, dict):
            functions = [f for f in functions if f["name"] == choice["function"]["name"]]
        function = chance.choice(functions)
        arguments = _instance(function.get("parameters") or {}, chance)
        # Spaces at the end change no JSON, and give each token a text.
        text = json.dumps(arguments, ensure_ascii=False).ljust(tokens)
        # vLLM says "stop" where the client chose the tool.
        finish = "stop" if isinstance(choice, dict) else "tool_calls"
        return Reply(_cut(text, tokens), tool=function["name"], finish=finish)
    if form is Form.JSON:
        text = json.dumps({"answer": _words(chance, tokens)}, ensure_ascii=False)
        return Reply(_cut(text, tokens), finish="stop")
    if form is Form.CODE:
        function = (_FUNCTION.findall(prompt) or ["answer"])[-1]
        comment = _words(chance, tokens)
        code = f"```python\ndef {function}(*values):\n    #{comment}\n    return values\n```"
        return Reply(_cut(code, tokens), finish="stop")
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


def _words(chance: random.Random, count: int) -> str:
    return wire.words(chance.randrange(wire.VOCABULARY), count)


def _cut(text: str, count: int) -> tuple[str, ...]:
    ends = [len(text) * index // count for index in range(count + 1)]
    return tuple(text[start:end] for start, end in pairwise(ends))


def _instance(schema: Any, chance: random.Random) -> Any:
    """A value that a JSON Schema allows, as far as schemas of tools go."""
    if not isinstance(schema, dict):
        return "any"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    for either in ("anyOf", "oneOf", "allOf"):
        if schema.get(either):
            return _instance(schema[either][0], chance)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    high = schema.get("maximum", max(low, schema.get("exclusiveMaximum", low + 10) - 1))
    match kind[0] if isinstance(kind, list) else kind:
        case "object" | "dict":
            properties = schema.get("properties") or {}
            return {name: _instance(value, chance) for name, value in properties.items()}
        case "array" | "tuple":
            count = max(1, schema.get("minItems", 1))
            return [_instance(schema.get("items"), chance) for _ in range(count)]
        case "integer" | "number" | "float":
            return chance.randint(int(low), max(int(low), int(high)))
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            text = _words(chance, 3).strip()
            return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
