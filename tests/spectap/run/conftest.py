"""What all runs in a test's own process need."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _frozen(frozen_imports: None) -> None:
    """Every one of these tests runs something."""
