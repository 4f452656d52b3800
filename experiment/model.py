"""A model as an experiment file names it."""

from __future__ import annotations

from pydantic import Field

from experiment.architecture import Architecture
from experiment.known_models import KNOWN_MODELS
from experiment.strict import Strict
from experiment.text_types import Commit, ModelId


class Model(Strict):
    """A checkpoint on the Hugging Face Hub, at one commit."""

    id: ModelId = Field(description="organisation/name")
    revision: Commit = Field(description="Commit. A branch name would move.")
    architecture: Architecture | None = Field(
        None, description="Required for a model this project does not know."
    )

    @property
    def known(self) -> Architecture:
        """The architecture, from the file or from the catalogue.

        Raises KeyError for an unknown model without one; ``rules`` refuses such a file.
        """
        return self.architecture or KNOWN_MODELS[self.id]
