"""Pydantic's errors in the words of the file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from experiment.architecture import ModelKind
from experiment.errors import ABSENT, Path, Refusal, dotted
from experiment.known_models import KNOWN_MODELS, REVISIONS
from experiment.schema import Experiment
from experiment.strict import Strict
from experiment.yaml_text import TOO_DEEP, Document


def translate(errors: Sequence[ErrorDetails], document: Document) -> Iterator[Refusal | str]:
    """Pydantic's ``errors`` of ``document`` in the words of the file.

    Errors that only follow from others are left out.
    """
    misspelt = {
        (*loc[:-1], _close(str(loc[-1]), _model_at(loc[:-1])))
        for loc in (error["loc"] for error in errors if error["type"] == "extra_forbidden")
    }
    for error in errors:
        follows = error["type"] == "missing" and error["loc"] in misspelt
        if not follows and not _miscounted(error):
            yield _translated(error, document)


def _miscounted(error: ErrorDetails) -> bool:
    """Whether a list counts as too short only because some of its items are refused."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def _translated(error: ErrorDetails, document: Document) -> Refusal | str:
    loc, kind, value = error["loc"], error["type"], error["input"]
    match kind:
        case "json_invalid":  # aliases inside aliases are nested deeper than pydantic reads
            return TOO_DEEP
        case "missing":
            value, allowed = ABSENT, f"is required{_with(_model_at(loc[:-1]), str(loc[-1]))}"
        case "extra_forbidden":
            allowed = _unknown_key(str(loc[-1]), _model_at(loc[:-1]))
        case "model_type":
            allowed = f"must be a mapping with the keys {', '.join(_model_at(loc).model_fields)}"
        case _:
            allowed = _allowed(error)
    path, line = document.locate(loc, of_key=kind == "extra_forbidden")
    return Refusal(dotted(path), value, allowed + _known(loc, document), line)


def _known(loc: Path, document: Document) -> str:
    """What is known of the models in the file and settles the value, for the end of a line."""
    return _known_revision(loc, document) + _known_window(loc, document)


def _known_revision(loc: Path, document: Document) -> str:
    """Of a known model's revision, the one whose figures are known, for the end of a line."""
    model = document.value((*loc[:-1], "id")) if loc[-1:] == ("revision",) else None
    known = REVISIONS.get(model) if isinstance(model, str) else None
    return f"; the figures known of {model} are of {known.commit}" if known else ""


def _known_window(loc: Path, document: Document) -> str:
    """Of a known DFlash draft, the one window that it takes."""
    if loc[-1:] != ("num_speculative_tokens",):
        return ""
    places = ((*loc[:-1], "draft", "id"), ("models", "draft", "id"))
    model = next((found for found in map(document.value, places) if found), None)
    known = KNOWN_MODELS.get(model) if isinstance(model, str) else None
    if known is None or known.kind is not ModelKind.DFLASH_DRAFT:
        return ""
    return f"; {model} takes {known.drafts} alone"


def _allowed(error: ErrorDetails) -> str:
    """What a single value must be."""
    value, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "string_type":
            return "must be text" if value is None else "must be text; put it in quotes"
        case "string_too_short" if context["min_length"] == 1:
            return "must not be empty"
        case "string_pattern_mismatch":
            return _pattern_messages()[context["pattern"]]
        case "tuple_type":
            return "must be a list"
        case "mapping_type" | "dict_type":
            return "must be a mapping"
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
        case "value_error":
            return str(context["error"])
        case "literal_error" | "enum":
            return f"must be {context['expected']}" + _unquote(value)
        case "date_type" | "date_parsing" | "date_from_datetime_parsing":
            return "must be a date such as 2026-05-21"
        case _:
            return re.sub(r"^\w+ should ", "must ", error["msg"])


def _with(model: type[BaseModel], key: str) -> str:
    """What a section that is not there must have: otherwise its keys would be asked for next."""
    keys = ", ".join(_required(model.model_fields[key].annotation))
    return f", with {keys}" if keys else ""


def _required(section: Any) -> Iterator[str]:
    """The dotted keys that a mapping of this type needs; none of what is no mapping of the file."""
    if not (isinstance(section, type) and issubclass(section, Strict)):
        return
    for key, field in section.model_fields.items():
        if field.is_required():
            yield from [f"{key}.{inner}" for inner in _required(field.annotation)] or [key]


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _unquote(value: Any) -> str:
    """Advice for a number, true or false that is in quotes."""
    plain = r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?|true|false"
    return ", without quotes" if isinstance(value, str) and re.fullmatch(plain, value) else ""


@cache
def _pattern_messages() -> Mapping[str, str]:
    """What each pattern of the schema allows, as ``text_types.matching`` says it."""
    return dict(_patterns(Experiment.model_json_schema()))


def _patterns(schema: Any) -> Iterator[tuple[str, str]]:
    if isinstance(schema, Mapping):
        if "patternErrorMessage" in schema:
            yield schema["pattern"], schema["patternErrorMessage"]
        schema = schema.values()
    elif not isinstance(schema, list):
        return
    for inner in schema:
        yield from _patterns(inner)


def _model_at(loc: Iterable[int | str]) -> type[BaseModel]:
    """The model that validates the mapping at ``loc``."""
    model: type[BaseModel] = Experiment
    for step in loc:
        if isinstance(step, str):
            model = next(_models_in(model.model_fields[step].annotation))
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as ``tuple[Model, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _unknown_key(key: str, model: type[BaseModel]) -> str:
    close = _close(key, model)
    hint = f"did you mean {close}? " if close else ""
    return f"unknown key; {hint}allowed: {', '.join(model.model_fields)}"


def _close(key: str, model: type[BaseModel]) -> str | None:
    """The key of ``model`` that ``key`` probably misspells."""
    return next(iter(difflib.get_close_matches(key, model.model_fields, n=1)), None)
