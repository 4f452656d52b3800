"""From a YAML file to an ``Experiment``, or to one line that says why not."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from experiment.errors import ExperimentError, Refusal
from experiment.rules import refusals
from experiment.schema import Experiment


def load(path: str | Path) -> Experiment:
    """The experiment in the YAML 1.2 file ``path``.

    Raises ExperimentError, one line that names file, field, value and what is allowed.
    """
    return parse(_read(Path(path)), str(path))


def parse(text: str, file: str) -> Experiment:
    """The experiment in the YAML text of ``file``; raises as ``load`` does."""
    data = _yaml(text, file)
    try:
        # By way of JSON, strict validation takes a list for a tuple and a string for an
        # enumeration or a date, and still refuses "4" for 4.
        experiment = Experiment.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        raise ExperimentError(file, _translate(error.errors()[0])) from None
    for refusal in refusals(experiment):
        raise ExperimentError(file, refusal)
    return experiment


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        there = ", ".join(sorted(str(other) for other in path.parent.glob("*.yaml")))
        raise ExperimentError(str(path), f"no such file; there is: {there or 'none'}") from None
    except UnicodeDecodeError:
        raise ExperimentError(str(path), "is not UTF-8 text; an experiment is YAML") from None
    except OSError as error:
        raise ExperimentError(str(path), f"cannot be read: {error.strerror}") from None


def _yaml(text: str, file: str) -> Mapping[str, Any]:
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        problem = str(error.problem or error.context).splitlines()[0]
        raise ExperimentError(file, f"line {line}: not valid YAML: {problem}") from None
    except YAMLError as error:
        raise ExperimentError(file, f"not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, Mapping):
        found = "empty" if data is None else f"a {type(data).__name__}"
        keys = ", ".join(Experiment.model_fields)
        raise ExperimentError(file, f"is {found}; an experiment is a mapping with the keys {keys}")
    return data


def _translate(error: ErrorDetails) -> Refusal:
    """A pydantic error in the words of the file."""
    loc = error["loc"]
    field = _path(loc)
    match error["type"]:
        case "missing":
            return Refusal(field, None, "is required")
        case "extra_forbidden":
            return Refusal(field, error["input"], _unknown_key(str(loc[-1]), _model_at(loc[:-1])))
        case "string_pattern_mismatch":
            return Refusal(field, error["input"], f"must match {error['ctx']['pattern']}")
        case _:
            return Refusal(field, error["input"], re.sub(r"^\w+ should ", "must ", error["msg"]))


def _path(loc: Iterable[int | str]) -> str:
    """``("benchmark", "test_cases", 0, "name")`` as ``benchmark.test_cases[0].name``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc)
    return "".join(steps).lstrip(".")


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
    close = difflib.get_close_matches(key, model.model_fields, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"unknown key; {hint}allowed: {', '.join(model.model_fields)}"
