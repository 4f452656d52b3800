"""The user's own prompts: a file beside the experiment's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spectap import prompt_file
from spectap.prompt import Prompt


@dataclass(frozen=True)
class PromptFile:
    """A file of prompts, as it was read."""

    content: bytes
    prompts: tuple[Prompt, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def has_tools(self) -> bool:
        """Whether an answer to one of its prompts may be a call of a tool."""
        return any(prompt.tools for prompt in self.prompts)

    @property
    def only_tools(self) -> bool:
        """Whether an answer to each of its prompts may be a call of a tool."""
        return all(prompt.tools for prompt in self.prompts)


def read(path: Path) -> PromptFile:
    """The file of prompts at ``path``. Raises ConfigError with a line for each bad line of it."""
    content = prompt_file.content(path)
    return PromptFile(content, prompt_file.parse(content, str(path)))
