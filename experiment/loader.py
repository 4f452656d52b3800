"""From a YAML file to an ``Experiment``, or to the lines that say why not."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from experiment.errors import ExperimentError
from experiment.rules import refusals
from experiment.schema import Experiment
from experiment.translation import translate
from experiment.yaml_text import as_json


def load(path: str | Path) -> Experiment:
    """The experiment in the YAML 1.2 file ``path``.

    Raises ExperimentError, a line for each error: file, field, value and what is allowed. What
    must hold between fields is looked at once each of them is good.
    """
    return parse(_read(Path(path)), str(path))


def parse(text: str, file: str) -> Experiment:
    """The experiment in the YAML text of ``file``; raises as ``load`` does."""
    try:
        # By way of JSON, strict validation takes a list for a tuple and a string for an
        # enumeration or a date, and still refuses "4" for 4.
        experiment = Experiment.model_validate_json(as_json(text, file))
    except ValidationError as error:
        raise ExperimentError(file, *translate(error.errors())) from None
    refused = [*refusals(experiment)]
    if refused:
        raise ExperimentError(file, *refused)
    return experiment


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        found = [*path.parent.glob("*.yaml")] or Path("experiments").glob("*.yaml")
        there = ", ".join(sorted(map(str, found)))
        raise ExperimentError(str(path), f"no such file; there is: {there or 'none'}") from None
    except UnicodeDecodeError:
        raise ExperimentError(str(path), "is not UTF-8 text; an experiment is YAML") from None
    except OSError as error:
        raise ExperimentError(str(path), f"cannot be read: {error.strerror}") from None
