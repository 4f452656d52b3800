"""What differs in one stack, or in all manifests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """What differs in one stack, or in all manifests."""

    title: str
    text: str = ""
    added: int = 0
    changed: int = 0
    removed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The notes in words."""
        return ", ".join(self.notes) or ("" if self.text else "unchanged")
