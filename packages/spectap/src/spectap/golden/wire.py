"""Answers as vLLM writes them, byte for byte the same shape (vLLM 0.11 and later)."""

import json
from dataclasses import dataclass
from typing import Any

DONE = b"data: [DONE]\n\n"

# Some take more than one byte, so that a stream can be cut inside a character.
_WORDS = (" one", " two", " drei", " vier", " cinq", " été", " 七", " 🙂")
VOCABULARY = len(_WORDS)
"""How many words there are, which come in turn."""


def words(first: int, count: int) -> str:
    """The text of ``count`` tokens, of which the first is token number ``first``."""
    return "".join(_WORDS[index % len(_WORDS)] for index in range(first, first + count))


@dataclass(frozen=True)
class Answer:
    """The fields that all parts of one answer share."""

    id: str
    model: str
    created: int
    chat: bool
    prompt_tokens: int
    tool: str | None = None
    """The tool that it calls; all text is then of the call's arguments."""
    finish: str = "length"
    """OpenAI's ``finish_reason``."""

    def role(self, usage: bool) -> bytes:
        """The chat stream's opening event: the role, and no content yet."""
        return self._event([self._choice({"role": "assistant", "content": ""})], 0, usage)

    def chunk(
        self, text: str, last: bool, tokens: int, usage: bool, *, first: bool = False
    ) -> bytes:
        """An event with text; ``tokens`` are all tokens of the answer so far."""
        ending: dict[str, Any] = {"finish_reason": self.finish if last else None}
        if last or not self.chat:
            ending["stop_reason"] = None
        delta = {"content": text} if self.tool is None else self._call(text, first)
        choice = self._choice(delta) if self.chat else {"index": 0, "text": text, "logprobs": None}
        return self._event([choice | ending], tokens, usage)

    def usage_only(self, tokens: int) -> bytes:
        """The event before ``[DONE]`` that a client gets who asked for usage."""
        return self._event([], tokens, usage=True)

    def unstreamed(self, text: str, tokens: int) -> bytes:
        choice: dict[str, Any] = {"index": 0}
        if not self.chat:
            choice["text"] = text
        elif self.tool is None:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            function = {"name": self.tool, "arguments": text}
            call = {"id": self._call_id, "type": "function", "function": function}
            choice["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice |= {"logprobs": None, "finish_reason": self.finish, "stop_reason": None}
        kind = "chat.completion" if self.chat else "text_completion"
        return _dump(self._head(kind) | {"choices": [choice], "usage": self._usage(tokens)})

    def _call(self, arguments: str, first: bool) -> dict[str, Any]:
        """A delta of the call: its name comes once and first, its arguments piece by piece.

        So does ``vllm/tool_parsers/hermes_tool_parser.py`` it.
        """
        name = {
            "id": self._call_id,
            "type": "function",
            "index": 0,
            "function": {"name": self.tool},
        }
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
