"""What the benchmark's tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests, which ``pytest.mark.anyio`` marks, run on asyncio."""
    return "asyncio"
