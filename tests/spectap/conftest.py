"""What the benchmark's tests share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Asynchronous tests, which ``pytest.mark.anyio`` marks, run on asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def frozen_imports() -> Iterator[None]:
    """Collecting garbage before each load goes over what the run has made, as in the pod.

    All that the tests have imported would make it ten times as long.
    """
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield
