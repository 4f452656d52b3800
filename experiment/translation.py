"""Pydantic's errors in the words of the file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from experiment.errors import Refusal, shown
from experiment.schema import Experiment
from experiment.yaml_text import TOO_DEEP

PATTERNS_IN_WORDS: Final = {
    r"^[a-z][a-z0-9-]{0,18}[a-z0-9]$": "2 to 20 of a-z, 0-9 and -, a letter first, no - at the end",
    r"^[A-Za-z0-9]([A-Za-z0-9-]{0,18}[A-Za-z0-9])?$": (
        "1 to 20 of A-Z, a-z, 0-9 and -, no - at either end"
    ),
    r"^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$": "2 to 40 of a-z, 0-9 and -, no - at either end",
    r"^[a-z]{2}(-[a-z]+)+-\d$": "a region such as us-east-2",
    r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$": "an availability zone such as us-east-2a",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$": "an address such as you@example.org",
    r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}$": "an IPv4 network such as 203.0.113.0/24",
    r"^cr-[0-9a-f]{8,17}$": "the identifier of a reservation, such as cr-0123456789abcdef0",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$": (
        "organisation/name, as on the Hugging Face Hub"
    ),
    r"^[^\s@]+(:[\w.-]+|@sha256:[0-9a-f]{64})$": "an image with its tag or its digest",
    r"\S": "more than blanks",
    r"^[0-9a-f]{40}$": "a commit, 40 hexadecimal digits; a branch name would move",
}
"""The schema's patterns in words."""


def translate(errors: Sequence[ErrorDetails]) -> Iterator[Refusal | str]:
    """Pydantic's ``errors`` in the words of the file, without those that follow from others."""
    misspelt = {
        (*loc[:-1], _close(str(loc[-1]), _model_at(loc[:-1])))
        for loc in (error["loc"] for error in errors if error["type"] == "extra_forbidden")
    }
    for error in errors:
        follows = error["type"] == "missing" and error["loc"] in misspelt
        if not follows and not _miscounted(error):
            yield _translated(error)


def _miscounted(error: ErrorDetails) -> bool:
    """Whether a list is called too short only because some of its items are bad."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def _translated(error: ErrorDetails) -> Refusal | str:
    loc = error["loc"]
    match error["type"]:
        case "json_invalid":  # what YAML can say and JSON cannot
            return TOO_DEEP
        case "missing":
            return f"{_path(loc)}: is required"
        case "extra_forbidden":
            allowed = _unknown_key(str(loc[-1]), _model_at(loc[:-1]))
        case "model_type":
            allowed = f"must be a mapping with the keys {', '.join(_model_at(loc).model_fields)}"
        case _:
            allowed = _allowed(error)
    return Refusal(_path(loc), error["input"], allowed)


def _allowed(error: ErrorDetails) -> str:
    """What a single value must be."""
    value, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "string_type":
            return "must be text" if value is None else "must be text; put it in quotes"
        case "string_too_short" if context["min_length"] == 1:
            return "must not be empty"
        case "string_pattern_mismatch":
            pattern = context["pattern"]
            return (
                f"must be {PATTERNS_IN_WORDS[pattern]}"
                if pattern in PATTERNS_IN_WORDS
                else f"must match {pattern}"
            )
        case "tuple_type":
            return "must be a list"
        case "too_short":
            return f"must have at least {_items(context['min_length'])}"
        case "too_long":
            return f"must have at most {_items(context['max_length'])}"
        case "bool_type":
            return "must be true or false" + _unquote(value)
        case "int_type" | "int_from_float":
            return "must be an integer" + _unquote(value)
        case "float_type":
            return "must be a number" + _unquote(value)
        case "greater_than_equal":
            return f"must be at least {context['ge']:.15g}"
        case "less_than_equal":
            return f"must be at most {context['le']:.15g}"
        case "multiple_of":
            return f"must be a multiple of {context['multiple_of']:.15g}"
        case "greater_than":
            return f"must be more than {context['gt']:.15g}"
        case "literal_error" | "enum":
            return f"must be {context['expected']}" + _unquote(value)
        case "date_type" | "date_parsing" | "date_from_datetime_parsing":
            return "must be a date such as 2026-05-21"
        case _:
            return re.sub(r"^\w+ should ", "must ", error["msg"])


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _unquote(value: Any) -> str:
    """Advice for someone who put a number, true or false in quotes."""
    plain = r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?|true|false"
    return ", without quotes" if isinstance(value, str) and re.fullmatch(plain, value) else ""


def _path(loc: Iterable[int | str]) -> str:
    """``("benchmark", "test_cases", 0, "name")`` as ``benchmark.test_cases[0].name``."""
    return "".join(f"[{s}]" if isinstance(s, int) else f".{_key(s)}" for s in loc).removeprefix(".")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else shown(key)


def _model_at(loc: Iterable[int | str]) -> type[BaseModel]:
    """The model that validates the mapping at ``loc``."""
    model: type[BaseModel] = Experiment
    for step in loc:
        if isinstance(step, str):
            annotation = model.model_fields[step].annotation
            candidates = (annotation, *get_args(annotation))
            model = next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))
    return model


def _unknown_key(key: str, model: type[BaseModel]) -> str:
    close = _close(key, model)
    hint = f"did you mean {close}? " if close else ""
    return f"unknown key; {hint}allowed: {', '.join(model.model_fields)}"


def _close(key: str, model: type[BaseModel]) -> str | None:
    """The key that ``key`` is likely a misspelling of."""
    return next(iter(difflib.get_close_matches(key, model.model_fields, n=1)), None)
