"""From a YAML file to an ``Experiment``, or to the lines that say why it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from experiment.errors import ABSENT, Elsewhere, ExperimentError, Refusal, dotted, steps
from experiment.fields import PATTERN_MESSAGES
from experiment.measurement import PromptFile
from experiment.rules import refusals
from experiment.schema import Experiment
from experiment.yaml_text import Document, read_yaml
from spectap.errors import ConfigError, allowed


def load(path: str | Path) -> Experiment:
    """The experiment in the YAML 1.2 file ``path``.

    Raises ExperimentError with one line per error: file, line, field, value, and what is allowed.
    The rules between fields are checked only when every field is valid by itself.
    """
    return parse(_read(Path(path)), str(path))


def parse(text: str, file: str) -> Experiment:
    """The experiment in the YAML text of ``file``; raises as ``load`` does."""
    document = read_yaml(text, file)
    try:
        # Strict validation of JSON takes a list for a tuple, and a string for an enumeration or
        # a date. It still refuses "4" for 4.
        experiment = Experiment.model_validate_json(document.json)
    except ValidationError as error:
        raise ExperimentError(file, *_invalid(error, document)) from None
    experiment = experiment.with_prompt_files(_prompt_files(experiment, document, file))
    refused = [_located(refusal, document) for refusal in refusals(experiment)]
    if refused:
        raise ExperimentError(file, *refused)
    return experiment


def _invalid(error: ValidationError, document: Document) -> Iterator[Refusal]:
    """What pydantic refuses, as ``rules`` would say it."""
    for problem in error.errors(include_url=False):
        kind = problem["type"]
        # A list also counts as too short where some of its items are refused.
        if kind == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"]:
            continue
        inner = steps(problem.get("ctx", {}).get("field", ""))
        path, line = document.locate((*problem["loc"], *inner), of_key=kind == "extra_forbidden")
        value = ABSENT if kind == "missing" else _value(problem["input"], inner)
        yield Refusal(dotted(path), value, _allowed(problem), line)


def _value(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        try:
            value = value[step]
        except LookupError:
            return ABSENT
    return value


def _allowed(problem: ErrorDetails) -> str:
    if problem["type"] == "string_pattern_mismatch":
        return PATTERN_MESSAGES[problem["ctx"]["pattern"]]
    return allowed(problem, Experiment)


def _prompt_files(experiment: Experiment, document: Document, file: str) -> dict[str, PromptFile]:
    """The files of prompts that the test cases name, which lie beside ``file``."""
    files: dict[str, PromptFile] = {}
    errors: list[Refusal | Elsewhere] = []
    for index, case in enumerate(experiment.benchmark.test_cases):
        if case.file is None or case.file in files:
            continue
        path = Path(file).parent / case.file
        if not path.is_file():
            missing = Refusal(f"benchmark.test_cases[{index}].file", case.file, f"no file {path}")
            errors.append(_located(missing, document))
            continue
        try:
            files[case.file] = PromptFile.read(path)
        except ConfigError as error:
            errors += map(Elsewhere, str(error).splitlines())
    if errors:
        raise ExperimentError(file, *dict.fromkeys(errors))
    return files


def _located(refusal: Refusal, document: Document) -> Refusal:
    """The refusal with its field as the file spells it, and with its line."""
    path, line = document.locate(steps(refusal.field))
    return replace(refusal, field=dotted(path), line=line)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        files = [*path.parent.glob("*.yaml")] or Path("experiments").glob("*.yaml")
        available = ", ".join(sorted(map(str, files)))
        raise ExperimentError(
            str(path), f"no such file; available: {available or 'none'}"
        ) from None
    except UnicodeDecodeError:
        raise ExperimentError(str(path), "is not UTF-8 text; an experiment is YAML") from None
    except OSError as error:
        raise ExperimentError(str(path), f"cannot be read: {error.strerror}") from None
