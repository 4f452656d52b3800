"""A run's folder belongs to one configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.errors import RunError
from benchmark.run.folder import prepare
from tests.benchmark import samples


def test_a_run_is_not_mixed_with_another_configuration(tmp_path: Path) -> None:
    prepare(tmp_path / "run", samples.config())
    prepare(tmp_path / "run", samples.config())
    with pytest.raises(RunError, match=r"another configuration \(model\): set a new RUN_ID"):
        prepare(tmp_path / "run", samples.config(model="another"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be written"):
        prepare(tmp_path / "file", samples.config())
