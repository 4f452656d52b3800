"""A model as an experiment file names it, and the models whose architecture is known."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import Field

from experiment.architecture import Architecture
from experiment.fields import Commit, ModelId, Strict

FILE: Final = Path(__file__).with_suffix(".toml")
"""Says where its figures come from. A new model is an entry there."""

PINNED: Final = "public repositories that pin it or list it in a cache of the Hub"


class Revision(NamedTuple):
    """A commit on the Hugging Face Hub, and where it was read."""

    commit: str
    read: str


def _entries() -> Iterator[tuple[str, dict[str, Any]]]:
    for group in tomllib.loads(FILE.read_text(encoding="utf-8")).values():
        shared = group.pop("all", {})
        yield from ((model, shared | figures) for model, figures in group.items())


KNOWN_MODELS: Final[dict[str, Architecture]] = {}
REVISIONS: Final[dict[str, Revision]] = {}
"""The revision that the figures are of, where one was seen in full."""

for _model, _figures in _entries():
    _commit, _read = _figures.pop("commit", None), _figures.pop("read", PINNED)
    KNOWN_MODELS[_model] = Architecture.model_validate(_figures, strict=False)
    if _commit:
        REVISIONS[_model] = Revision(_commit, _read)


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


class Models(Strict):
    """The target and its draft. Both must share one vocabulary."""

    target: Model = Field(description="The model that is served.")
    draft: Model | None = Field(
        None, description="The model that proposes tokens for it; most modes need one."
    )
