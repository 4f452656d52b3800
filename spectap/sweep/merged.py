"""What a merged run is made of: its ``merged.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from pydantic import TypeAdapter, ValidationError

from spectap.errors import JournalError
from spectap.names import MERGED


@dataclass(frozen=True)
class Merged:
    """Which variants are in a run, and which are not."""

    complete: tuple[str, ...]
    """Names of the variants that are in it."""
    missing: Mapping[str, str]
    """Why each of the others is not, to stand after "because"."""
    notes: tuple[str, ...] = ()
    """What to know of those that are in it, in sentences."""

    @property
    def sentences(self) -> Iterator[str]:
        """All that a reader of the run has to know."""
        for name, reason in self.missing.items():
            yield f"{name} is not in this run, because {reason}."
        yield from self.notes


_MERGED: Final = TypeAdapter(Merged)


def write(folder: Path, merged: Merged) -> None:
    """Writes ``merged.json``, whole or not at all. Raises OSError."""
    draft = folder / f"{MERGED}.draft"
    draft.write_bytes(orjson.dumps(merged, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    draft.replace(folder / MERGED)


def read(folder: Path) -> Merged | None:
    """What ``write`` has written; None for a run that is not merged. Raises JournalError."""
    path = folder / MERGED
    try:
        return _MERGED.validate_json(path.read_bytes()) if path.exists() else None
    except (OSError, ValidationError) as error:
        raise JournalError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
