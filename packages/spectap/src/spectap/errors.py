"""The errors that users see, in one tree, so that callers can catch a family.

The text of each is one line, or a line for each thing that is wrong, and says what to check. This
module does not import pydantic, which is slow to import.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

from spectap.wording import printable

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails


class SpectapError(Exception):
    """The benchmark cannot do what it was asked to."""


class ConfigError(SpectapError):
    """The configuration cannot be used."""


class JournalError(SpectapError):
    """A line of a journal cannot be read."""


class EndpointError(SpectapError):
    """An endpoint does not serve, or not what is needed."""


class RunError(SpectapError):
    """A run cannot start, continue, be merged, read or compared, or lacks what it needs."""


class LoadError(SpectapError):
    """The load generator could not be run to its end, or left no results."""


class ShippingError(SpectapError):
    """Results could not leave this machine. They are kept, and can be sent later."""


def allowed(problem: ErrorDetails, model: type[BaseModel]) -> str:
    """The values that ``model`` allows where it refused one: the end of an error's line."""
    match problem["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            *parents, key = problem["loc"]
            for step in parents:
                if isinstance(step, str):
                    model = next(_models(_fields(model)[step].annotation))
            keys = [*_fields(model)]
            close = difflib.get_close_matches(str(key), keys, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            return f"unknown key; {hint}allowed: {', '.join(keys)}"
        case "value_error":
            return str(problem["ctx"]["error"])
        case _:
            words = re.sub(r"^\w+ should ", "must ", problem["msg"])
            return re.sub(r" after validation, not \d+$", "", words).replace("valid array", "list")


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of ``model``, by the keys of a file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as ``tuple[Model, ...] | None``."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def problems(error: ValidationError) -> Iterator[str]:
    """One line for each thing that is wrong: the field and what is allowed."""
    for problem in error.errors(include_url=False):
        field = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        yield printable(f"{field}: {message}".removeprefix(": "))
