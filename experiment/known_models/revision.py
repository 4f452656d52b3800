"""A commit of a model whose figures are known."""

from __future__ import annotations

from typing import Final, NamedTuple


class Revision(NamedTuple):
    """A commit on the Hugging Face Hub, and where it was read."""

    commit: str
    read: str


PINNED: Final = "public repositories that pin it or list it in a cache of the Hub"
"""Several of them name the same commit. Nobody says that it is the newest."""


def tree(model: str, commit: str) -> Revision:
    """A commit that the Hub's own page of the model's files was seen at."""
    return Revision(commit, f"https://huggingface.co/{model}/tree/{commit}")
