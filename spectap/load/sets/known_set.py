"""What is known of a set of prompts before its package is installed, and how its file is found.

The prompts lie in packages of others, pinned in ``requirements.txt`` beside this module. Their own
modules are never imported: what these need is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from spectap.errors import ConfigError
from spectap.prompt import Prompt

FOLDER: Final = Path(sys.prefix) / "prompt-sets"
"""Where the image and ``make`` install the packages: out of pip's sight, which would complain of
what they lack, and out of Python's, which could import them in place of something else."""


@dataclass(frozen=True)
class KnownSet:
    """A set of prompts, in a package on PyPI."""

    name: str
    """As experiment files have it."""
    title: str
    """As its authors have it."""
    package: str
    licence: str
    """SPDX identifier of the prompts' licence."""
    classes: Mapping[str, int]
    """Each class and how many prompts it has in the pinned version."""
    read: Callable[[Callable[[str], Path]], Iterable[Prompt]]
    """Its prompts, from a function that gives the place of a file of the package."""
    has_tools: bool = False
    """Whether its answers are calls of tools, which a server must be told to expect."""

    def load(self) -> tuple[tuple[Prompt, ...], str]:
        """All its prompts and its title with the package's version. Raises ConfigError."""
        installed = self._installed()
        try:
            prompts = tuple(self.read(lambda name: Path(str(installed.locate_file(name)))))
        except (OSError, LookupError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{self.name}: {self.package} {installed.version} holds no {self.title} as it is "
                f"known here: {type(error).__name__}: {error}"
            ) from None
        return prompts, f"{self.title} ({self.package} {installed.version})"

    def _installed(self) -> metadata.Distribution:
        path = [str(FOLDER), *sys.path]
        found = next(iter(metadata.distributions(name=self.package, path=path)), None)
        if found is None:
            raise ConfigError(
                f"{self.name}: the package {self.package} is not installed: "
                f"pip install --no-deps --target {FOLDER} {self._pinned()}"
            )
        return found

    def _pinned(self) -> str:
        pins = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8").split()
        return next((pin for pin in pins if pin.startswith(f"{self.package}==")), self.package)
