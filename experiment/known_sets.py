"""The prompt sets that the benchmark brings along, and what a rule must know of them.

The prompts are in packages that the benchmark's image has (``benchmark.load.sets``).
"""

from __future__ import annotations

from enum import StrEnum


class KnownSet(StrEnum):
    """A prompt set, by the name that ``benchmark.load.sets`` knows it by."""

    HUMANEVAL = "humaneval"
    MT_BENCH = "mt-bench"
    BFCL = "bfcl"

    @property
    def has_tools(self) -> bool:
        """Whether its answers are calls of tools."""
        return self is KnownSet.BFCL
