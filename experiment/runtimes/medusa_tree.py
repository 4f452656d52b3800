"""The tree of candidates that Medusa's heads fill.

Its nodes are those of ``medusa_mc_sim_7b_63`` (FasterDecoding/Medusa v1.0, ``medusa_choices.py``;
neuronx-distributed-inference v0.6.10598, ``examples/medusa_mc_sim_7b_63.json``), which Medusa's
authors chose by its acceptance on Vicuna 7B. With fewer heads the tree is cut to their number.
"""

from __future__ import annotations

import json
from typing import Final

_LEVELS: Final = (
    "0 1 2 3 4 5",
    "00 01 02 03 04 05 06 07 08 09 10 11 20 30 40",
    "000 001 002 003 004 005 006 007 008 009 010 011 020 030 040 050 100 101 200 300 400",
    "0000 0001 0002 0003 0004 0005 0010 0011 0020 0030 0040 0050 0100 0101 0200 0300 0400 "
    "1000 1001 2000 3000",
)
"""A node is the way to it: for each head, the rank of its candidate, one digit each."""

DEPTH: Final = len(_LEVELS)
"""The most heads that have a level."""

CANDIDATES: Final = 16
"""Candidates of each head that the device hands out: more than the largest rank, and a multiple of
8, for Trainium's own top-k."""


def tree(heads: int) -> list[list[int]]:
    """Ways to the nodes, without the root, level by level."""
    return [[int(rank) for rank in way] for level in _LEVELS[:heads] for way in level.split()]


def nodes(heads: int) -> int:
    """Nodes with the root: positions that a step verifies."""
    return len(tree(heads)) + 1


def file_name(heads: int) -> str:
    """Name of the file that holds the tree, beside the scripts."""
    return f"medusa-tree-{heads}.json"


def files() -> dict[str, str]:
    """Name and text of each such file."""
    return {
        file_name(heads): json.dumps(tree(heads), separators=(",", ":")) + "\n"
        for heads in range(1, DEPTH + 1)
    }
