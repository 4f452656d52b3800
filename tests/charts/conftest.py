"""An experiment that differs from the article's in its window, synthesised once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from experiment import Experiment
from tests.synthesis import Synthesised, synthesise


@pytest.fixture(scope="session")
def shorter_window(
    variation: Callable[..., Experiment], tmp_path_factory: pytest.TempPathFactory
) -> Synthesised:
    """Five speculative tokens instead of seven."""
    experiment = variation({"speculation.num_speculative_tokens": 5})
    return synthesise(experiment, tmp_path_factory.mktemp("window"))
