"""The answers of a golden endpoint: their text, and the bytes of vLLM 0.11 and later.

Equal prompts get equal answers from every variant. An answer with a form (a tool call, JSON or
code) is complete and valid.
"""

import json
import random
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from spectap.inputs.prompt import Form

DEFAULT_MAX_TOKENS: Final = 16

DONE: Final = b"data: [DONE]\n\n"

# Some take more than one byte, so that a stream can be cut inside a character.
_WORDS: Final = (" one", " two", " drei", " vier", " cinq", " été", " 七", " 🙂")
_FUNCTION: Final = re.compile(r"\bdef (\w+)\(")
_JSON: Final = re.compile(r"\bjson\b", re.IGNORECASE)
_PYTHON: Final = re.compile(r"\bpython\b", re.IGNORECASE)


def words(first: int, count: int) -> str:
    """The text of ``count`` tokens, of which the first is token number ``first``."""
    return "".join(_WORDS[index % len(_WORDS)] for index in range(first, first + count))


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


def length_of(body: dict[str, Any]) -> int:
    return int(body.get("max_tokens") or body.get("max_completion_tokens") or DEFAULT_MAX_TOKENS)


@dataclass(frozen=True)
class Reply:
    """One answer, token by token."""

    tokens: tuple[str, ...]
    """The text of each token; for a call, of its arguments."""
    tool: str | None = None
    """The tool that is called, if one is."""
    finish: str = "length"
    """OpenAI's ``finish_reason``."""

    @property
    def text(self) -> str:
        return "".join(self.tokens)


def reply(body: dict[str, Any], tokens: int) -> Reply:
    """The answer to a request, with so many tokens."""
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
    first = chance.randrange(len(_WORDS))
    return Reply(tuple(words(first + index, 1) for index in range(tokens)))


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
    return words(chance.randrange(len(_WORDS)), count)


def _cut(text: str, count: int) -> tuple[str, ...]:
    ends = [len(text) * index // count for index in range(count + 1)]
    return tuple(text[start:end] for start, end in pairwise(ends))


def _instance(schema: Any, chance: random.Random) -> Any:
    """A value that a JSON Schema of a tool allows. Bounds are not followed."""
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
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            properties = schema.get("properties") or {}
            return {name: _instance(value, chance) for name, value in properties.items()}
        case "array":
            return [_instance(schema.get("items"), chance)]
        case "integer" | "number":
            return chance.randint(1, 10)
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case _:
            return _words(chance, 3).strip()


@dataclass(frozen=True)
class Answer:
    """The fields that all parts of one answer share."""

    id: str
    model: str
    created: int
    chat: bool
    prompt_tokens: int
    reply: Reply = Reply(())

    def role(self, usage: bool) -> bytes:
        """The chat stream's opening event: the role, and no content yet."""
        return self._event([self._choice({"role": "assistant", "content": ""})], 0, usage)

    def chunk(
        self, text: str, last: bool, tokens: int, usage: bool, *, first: bool = False
    ) -> bytes:
        """An event with text; ``tokens`` is the count of the whole answer so far."""
        ending: dict[str, Any] = {"finish_reason": self.reply.finish if last else None}
        if last or not self.chat:
            ending["stop_reason"] = None
        delta = {"content": text} if self.reply.tool is None else self._call(text, first)
        choice = self._choice(delta) if self.chat else {"index": 0, "text": text, "logprobs": None}
        return self._event([choice | ending], tokens, usage)

    def usage_only(self, tokens: int) -> bytes:
        """The event before ``[DONE]`` for a client that asked for usage."""
        return self._event([], tokens, usage=True)

    def unstreamed(self) -> bytes:
        text, tokens = self.reply.text, len(self.reply.tokens)
        choice: dict[str, Any] = {"index": 0}
        if not self.chat:
            choice["text"] = text
        elif self.reply.tool is None:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            function = {"name": self.reply.tool, "arguments": text}
            call = {"id": self._call_id, "type": "function", "function": function}
            choice["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice |= {"logprobs": None, "finish_reason": self.reply.finish, "stop_reason": None}
        kind = "chat.completion" if self.chat else "text_completion"
        return _dump(self._head(kind) | {"choices": [choice], "usage": self._usage(tokens)})

    def _call(self, arguments: str, first: bool) -> dict[str, Any]:
        """A delta of a tool call: the name comes once, first; the arguments come in pieces.

        vLLM does the same (``vllm/tool_parsers/hermes_tool_parser.py``).
        """
        function = {"name": self.reply.tool}
        name = {"id": self._call_id, "type": "function", "index": 0, "function": function}
        piece = {"index": 0, "function": {"arguments": arguments}}
        return {"tool_calls": [*([name] if first else ()), *([piece] if arguments else ())]}

    @property
    def _call_id(self) -> str:
        return f"chatcmpl-tool-{self.id}"

    @staticmethod
    def _choice(delta: dict[str, Any]) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}

    def _event(self, choices: list[dict[str, Any]], tokens: int, usage: bool) -> bytes:
        body = self._head("chat.completion.chunk" if self.chat else "text_completion")
        body["choices"] = choices
        if usage:
            body["usage"] = self._usage(tokens)
        elif not self.chat:
            # A completion's chunk carries all of its fields, a chat's only those that were set.
            body["usage"] = None
        return b"data: " + _dump(body) + b"\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _usage(self, tokens: int) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + tokens,
            "completion_tokens": tokens,
        }


def error(message: str, kind: str, code: int) -> bytes:
    """The body of a refused request, and the data of an error inside a stream."""
    return _dump({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
