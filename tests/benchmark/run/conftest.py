"""What all runs in a test's own process need."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _imports_are_frozen() -> Iterator[None]:
    """Collecting garbage before each load goes over what the run has made, as in the pod.

    All that the tests have imported would make it ten times as long.
    """
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield
