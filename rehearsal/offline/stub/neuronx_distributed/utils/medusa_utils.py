"""Medusa's tree, which is read when an answer begins."""

from __future__ import annotations

TOPK = 10
"""Candidates of each head that the tree counts on."""
