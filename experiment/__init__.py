"""One experiment, typed and validated: the only thing a user edits."""

from typing import Final

from experiment.errors import ExperimentError
from experiment.loader import load
from experiment.schema import Experiment

__all__ = ["DEFAULT_FILE", "Experiment", "ExperimentError", "load"]

DEFAULT_FILE: Final = "experiments/article.yaml"
"""The experiment of whoever names none."""
