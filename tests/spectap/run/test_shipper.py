"""Which requests of a turn are published."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spectap.run.shipper import Shipper
from spectap.run.turns import Turn
from tests.spectap import samples
from tests.spectap.standins import Bucket, Publisher


def test_a_settled_turn_is_published_whole_by_its_last_attempt(tmp_path: Path) -> None:
    """Failed requests have no values of their own, but the turn's totals have their time."""
    records = [
        samples.record(request="first attempt"),
        samples.record(request="good", attempt=2),
        samples.record(request="of another variant", variant="Base", attempt=2),
        samples.record(request="reset", error="reset", attempt=2),
        samples.record(request="warm-up", round=0),
        samples.record(request="later", round=2),
    ]
    (tmp_path / "run").mkdir()
    events: list[str] = []
    publisher = Publisher(events)
    shipper = Shipper(tmp_path / "run", Bucket(tmp_path / "bucket", events), publisher, "run")
    for _ in range(2):
        assert asyncio.run(shipper.ship([Turn(1, "counting", "")], records)) is None
    assert publisher.published == ["good", "of another variant", "reset"]
    assert events == ["upload", "publish counting 1", "upload"]
