"""One experiment, typed and validated: the only thing a user edits."""

from experiment.errors import ExperimentError
from experiment.loader import load
from experiment.schema import Experiment

__all__ = ["Experiment", "ExperimentError", "load"]
