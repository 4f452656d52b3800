"""HTTP sessions with endpoints."""

from __future__ import annotations

import os

import aiohttp


def open_session(timeout_seconds: float) -> aiohttp.ClientSession:
    """A session for requests of at most ``timeout_seconds`` each.

    It sends the key of OPENAI_API_KEY, where that is set, as the load generator does.
    """
    key = os.environ.get("OPENAI_API_KEY")
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_seconds),
        headers={"Authorization": f"Bearer {key}"} if key else None,
    )
