"""What the tests of runs are given."""

import pytest

from spectap.lag import Lag


@pytest.fixture(autouse=True)
def _keeps_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers and load share the test's event loop, and with it all that delays it."""
    monkeypatch.setattr(Lag, "since", lambda self, mark: 0.0)
