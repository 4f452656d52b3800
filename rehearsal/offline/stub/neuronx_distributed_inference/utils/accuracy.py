"""Generates from tokens."""

from __future__ import annotations

from rehearsal.offline.nxdi.generation import get_generate_outputs_from_token_ids

__all__ = ["get_generate_outputs_from_token_ids"]
