"""The experiment, typed and validated: the only thing that a user edits."""

from typing import Final

from experiment.fields import ExperimentError
from experiment.loader import load
from experiment.schema import Experiment

__all__ = ["ACCOUNT_PLACEHOLDER", "DEFAULT_FILE", "Experiment", "ExperimentError", "load"]

DEFAULT_FILE: Final = "experiments/article.yaml"
"""The experiment that is used when none is named."""

ACCOUNT_PLACEHOLDER: Final = "${AWS_ACCOUNT_ID}"
"""The placeholder for the account in manifests that are written without one."""
