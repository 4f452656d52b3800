"""A run on golden endpoints in the test's own process, with stand-ins for what it ships to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from experiment.runtimes import Engine
from rehearsal.golden.schedule import Step
from rehearsal.golden.server import Golden
from spectap.config import Config, Variant
from spectap.ledger import read_ledger
from spectap.names import LEDGER
from spectap.record import Record
from spectap.run.run import Run
from spectap.run.shipper import Shipper
from spectap.run.taps import Patience
from tests.spectap import samples
from tests.spectap.standins import QUICK, Bucket, InProcess, Publisher


def golden(gap: float = 0.001, engine: Engine = Engine.V1) -> Golden:
    steps = [Step(gap * (index + 1), 1 + index % 4) for index in range(8)]
    return Golden(lambda prompt, number, length: steps, engine=engine)


def of(endpoints: dict[str, str], **changes: Any) -> Config:
    """A configuration with these variants, the first a baseline for the others."""
    baseline = next(iter(endpoints))
    variants = tuple(
        Variant(name=name, endpoint=url, baseline=None if name == baseline else baseline)
        for name, url in endpoints.items()
    )
    return samples.config(**changes).model_copy(update={"variants": variants})


class Setup:
    """Endpoints and a run's folder. ``windows`` are those of the variants beside Base and SD."""

    def __init__(self, folder: Path, windows: Sequence[int] = (), **changes: Any) -> None:
        self.base, self.speculative = golden(), golden()
        self.others = {f"k{window}": golden() for window in windows}
        self.folder = folder / "run-1"
        self.events: list[str] = []
        self.bucket = Bucket(self.folder, folder / "bucket", self.events)
        self.publisher = Publisher(self.events)
        self.driver = InProcess(None, folder)
        self._changes = changes

    @property
    def endpoints(self) -> dict[str, Golden]:
        return {"Base": self.base, "SD": self.speculative, **self.others}

    async def __aenter__(self) -> Self:
        for endpoint in self.endpoints.values():
            await endpoint.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for endpoint in self.endpoints.values():
            await endpoint.stop()

    def config(self) -> Config:
        urls = {name: endpoint.url for name, endpoint in self.endpoints.items()}
        return of(urls, **self._changes)

    def run(self, patience: Patience = QUICK) -> Run:
        return Run(
            self.config(),
            self.folder,
            driver=self.driver,
            shipper=Shipper(self.bucket.upload, self.publisher.publish),
            patience=patience,
        )

    async def execute(self) -> list[str]:
        return await self.run().execute()

    def records(self) -> list[Record]:
        return read_ledger(self.folder / LEDGER)

    def published(self) -> list[str]:
        return [event for event in self.events if event.startswith("publish")]
