"""A run's folder belongs to one configuration, and each settled turn of it is published."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from spectap import config as configuration
from spectap.errors import RunError
from spectap.names import COMPLETE, CONFIG
from spectap.run.folder import prepare
from spectap.run.shipper import Shipper
from spectap.run.turns import Turn
from tests.spectap import samples
from tests.spectap.standins import Publisher


def test_a_run_is_not_mixed_with_another_configuration(tmp_path: Path) -> None:
    prepare(tmp_path / "run", samples.config())
    prepare(tmp_path / "run", samples.config())
    with pytest.raises(RunError, match=r"another configuration \(model\): set a new RUN_ID"):
        prepare(tmp_path / "run", samples.config(model="another"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be written"):
        prepare(tmp_path / "file", samples.config())


BEGUN: Any = {"settings": {"Target": "t", "Price": "35.76 USD"}, "apart": True}
LATER: Any = {
    "settings": {"Target": "t", "Price": "40.25 USD"},
    "objectives": {"ttft_p90_ms": 900},
    "apart": True,
}


def test_a_variant_goes_on_at_another_price(tmp_path: Path) -> None:
    """Its settings tell of both; a further pod changes nothing."""
    prepare(tmp_path, samples.config(**BEGUN))
    for _ in range(2):
        prepare(tmp_path, samples.config(**LATER))
        stored = configuration.read(tmp_path / CONFIG)
        assert stored.settings == {"Target": "t", "Price": "35.76 USD, then 40.25 USD"}
        assert stored.objectives == samples.config(**LATER).objectives
    with pytest.raises(RunError, match=r"another configuration \(keep_answers\)"):
        prepare(tmp_path, samples.config(**LATER, keep_answers=True))


def test_a_complete_variant_stays_as_it_was_measured(tmp_path: Path) -> None:
    prepare(tmp_path, samples.config(**BEGUN))
    (tmp_path / COMPLETE).touch()
    prepare(tmp_path, samples.config(**LATER))
    assert configuration.read(tmp_path / CONFIG) == samples.config(**BEGUN)


def test_variants_that_stand_together_go_on_only_as_they_began(tmp_path: Path) -> None:
    prepare(tmp_path, samples.config(settings={"Image": "1"}))
    with pytest.raises(RunError, match=r"another configuration \(settings\)"):
        prepare(tmp_path, samples.config(settings={"Image": "2"}))


def test_a_settled_turn_is_published_whole_by_its_last_attempt() -> None:
    """Failed requests have no values of their own, but the turn's totals have their time."""
    records = [
        samples.record(request="first attempt"),
        samples.record(request="good", attempt=2),
        samples.record(request="of another variant", variant="Base", attempt=2),
        samples.record(request="reset", error="reset", attempt=2),
        samples.record(request="warm-up", round=0),
        samples.record(request="later", round=2),
    ]
    events: list[str] = []
    publisher = Publisher(events)
    shipper = Shipper(lambda: events.append("upload"), publisher.publish)
    for _ in range(2):
        assert asyncio.run(shipper.ship([Turn(1, "counting", "")], records)) is None
    assert publisher.published == ["good", "of another variant", "reset"]
    assert events == ["upload", "publish counting 1", "upload"]
