"""The prompts of an experiment's test cases, which stand-ins must know before they are asked."""

from __future__ import annotations

from pathlib import Path

from experiment import Experiment
from experiment.measurement import TestCase
from rehearsal.errors import RehearsalError
from spectap.config import PromptSource
from spectap.errors import ConfigError
from spectap.load import sets
from spectap.prompt import Prompt


def prompts_of(experiment: Experiment, case: TestCase) -> tuple[Prompt, ...]:
    """All prompts of a test case that has a set or a file. Raises RehearsalError."""
    if case.file is not None:
        own = experiment.prompt_files[case.file].prompts
        return tuple(p for p in own if not case.classes or p.prompt_class in case.classes)
    try:
        return sets.load(PromptSource(known=case.set, classes=case.classes), Path()).prompts
    except ConfigError as error:
        raise RehearsalError(str(error)) from None
