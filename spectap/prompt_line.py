"""One line of a file of prompts, as JSON: what it may hold, and what is said of what it may not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from spectap.config import allowed
from spectap.prompt import Form, Prompt

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_LONGEST_NAME: Final = 100


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Message(_Model):
    """One of OpenAI's messages, as far as every server needs it."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Any = None
    tool_calls: Annotated[list[Any], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _has_text(self) -> _Message:
        if self.role == "assistant" and self.tool_calls and not self.content:
            return self
        parts = self.content if isinstance(self.content, list) else [{"text": self.content}]
        texts = [part.get("text") if isinstance(part, Mapping) else None for part in parts]
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise ValueError(
                'content must be text that is not empty, or a list of parts with "text"'
            )
        return self


class _Function(_Model):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any]
    strict: bool | None = None

    @field_validator("parameters")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
            raise ValueError('must be a JSON Schema with "type": "object" and "properties"')
        if unknown := [*_unknown_types(schema)]:
            raise ValueError(f"{_shown(unknown[0])} is no type of JSON Schema: {', '.join(_TYPES)}")
        return schema


class _Tool(_Model):
    type: Literal["function"]
    function: _Function


class _Line(_Model):
    """A line of JSON."""

    prompt: str | None = None
    messages: Annotated[list[_Message], Field(min_length=1)] | None = None
    name: str | None = None
    class_: str = Field("", alias="class")
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    tools: Annotated[list[_Tool], Field(min_length=1)] | None = None
    answer: Literal["json", "code"] | None = None

    @field_validator("prompt")
    @classmethod
    def _has_text(cls, prompt: str | None) -> str | None:
        if prompt is not None and not prompt.strip():
            raise ValueError("must not be empty")
        return prompt

    @field_validator("name", "class_")
    @classmethod
    def _is_a_word(cls, name: str | None) -> str | None:
        # They stand in the ledger, in headers and in tables.
        if name is not None and not (name.strip() and name.isprintable()):
            raise ValueError("must be printable and not empty")
        if name is not None and len(name) > _LONGEST_NAME:
            raise ValueError(f"must have at most {_LONGEST_NAME} characters")
        return name

    @field_validator("tools")
    @classmethod
    def _different(cls, tools: list[_Tool] | None) -> list[_Tool] | None:
        names = [tool.function.name for tool in tools or ()]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{twice} is there twice")
        return tools

    @model_validator(mode="after")
    def _consistent(self) -> _Line:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("needs either prompt or messages")
        if self.tools and self.answer:
            raise ValueError("answer: not with tools, whose answer is a tool call")
        return self


def read(line: str, number: int) -> Prompt | list[str]:
    """The prompt, or what is wrong with it: ``field = value: what is allowed``, one each.

    ``number`` is the line's, which names a prompt without a name.
    """
    try:
        value = json.loads(line, object_pairs_hook=_once_each)
        # Python reads more than others write: NaN, and halves of characters.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return _prompt(value, _Line.model_validate_json(line), number)
    except ValidationError as invalid:
        return [_problem(error) for error in invalid.errors(include_url=False)]
    except json.JSONDecodeError as error:
        return [f"is no JSON: {error.msg} at column {error.colno}"]
    except UnicodeEncodeError:
        return ["is no JSON: has half a character, a lone surrogate"]
    except RecursionError:
        return ["is no JSON: is nested too deeply"]
    except ValueError as error:
        return [f"is no JSON: {error}"]


def _prompt(value: Mapping[str, Any], valid: _Line, number: int) -> Prompt:
    """``value`` as a prompt: what it sends is as it was written."""
    form = Form.TOOL_CALL if valid.tools else None
    if valid.answer is not None:
        form = {"json": Form.JSON, "code": Form.CODE}[valid.answer]
    return Prompt(
        name=valid.name or f"line-{number}",
        prompt_class=valid.class_,
        messages=tuple(value.get("messages") or [{"role": "user", "content": valid.prompt}]),
        max_tokens=valid.max_tokens,
        tools=tuple(value.get("tools") or ()),
        form=form,
    )


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key} is there twice")
        found[key] = value
    return found


def _unknown_types(schema: Any) -> Iterator[Any]:
    """Values of ``type`` in a JSON Schema that it does not know, at any depth."""
    if not isinstance(schema, Mapping):
        return
    types = schema.get("type", [])
    yield from (
        name for name in (types if isinstance(types, list) else [types]) if name not in _TYPES
    )
    for keyword in ("properties", "$defs"):
        held = schema.get(keyword)
        for inner in held.values() if isinstance(held, Mapping) else ():
            yield from _unknown_types(inner)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        yield from _unknown_types(inner)
    for keyword in ("anyOf", "oneOf", "allOf"):
        held = schema.get(keyword)
        for inner in held if isinstance(held, list) else ():
            yield from _unknown_types(inner)


def _problem(error: ErrorDetails) -> str:
    """``field = value: what is allowed``; a whole object or list is not shown."""
    field = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in error["loc"])
    if error["type"] != "missing" and not isinstance(error["input"], (dict, list)):
        field += f" = {_shown(error['input'])}"
    return f"{field}: {allowed(error, _Line)}".removeprefix(".").removeprefix(": ")


def _shown(value: Any) -> str:
    """``value`` as JSON, short enough for one line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
