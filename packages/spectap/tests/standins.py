"""Stand-ins for what a run is given: a driver, a bucket that copies, a publisher that notes."""

import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from spectap.errors import LoadError, ShippingError
from spectap.load.driver import Driver
from spectap.records.record import Record
from spectap.run.taps import Patience

QUICK = Patience(start=10, recovery=0.3, stall=2)


class Bucket:
    """Copies ``folder``. Fails while ``failing``; ``events`` is shared with the publisher."""

    def __init__(self, folder: Path, target: Path, events: list[str]) -> None:
        self.folder, self.target, self.events = folder, target, events
        self.failing = False

    def upload(self) -> None:
        if self.failing:
            self.events.append("upload failed")
            raise ShippingError("the bucket cannot be reached")
        shutil.copytree(self.folder, self.target, dirs_exist_ok=True)
        self.events.append("upload")


class Publisher:
    """Notes each turn's requests, each request once, as the real one does."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.failing = False
        self.published: list[str] = []

    def publish(self, records: Sequence[Record]) -> None:
        if self.failing:
            raise ShippingError("throttled for too long")
        new = [record for record in records if record.request not in self.published]
        if any(record.succeeded for record in new):
            self.published += [record.request for record in new]
            self.events.append(f"publish {new[0].case} {new[0].round}")


@dataclass(frozen=True)
class InProcess(Driver):
    """Sends the requests from the test's own process: starting Python takes longer than they do.

    ``fail`` has the (case, variant) that it reports as failed.
    """

    fail: set[tuple[str, str]] = field(default_factory=set)
    ran: list[tuple[str, str, str]] = field(default_factory=list)

    async def run(self, **turn: Any) -> None:
        name, _, variant, round_ = turn["results"].parts[-4:]
        self.ran.append((name, variant, round_))
        if (name, variant) in self.fail:
            raise LoadError("llmperf ended with status 1: out of memory")
        body = {
            "model": turn["model"],
            "messages": [{"role": "user", "content": turn["case"].line or "sonnet"}],
            "stream": True,
            "max_tokens": turn["load"].mean_output_tokens,
        }
        async with aiohttp.ClientSession() as session:
            url = f"{turn['endpoint']}/chat/completions"
            requests = turn["point"].requests
            await asyncio.gather(*(_send(session, url, body) for _ in range(requests)))
        # The real one sends more until then.
        if not (await asyncio.wait([turn["until"]], timeout=5))[0]:
            raise LoadError("closed-loop did not end")


async def _send(session: aiohttp.ClientSession, url: str, body: dict[str, object]) -> None:
    with contextlib.suppress(aiohttp.ClientError):
        async with session.post(url, json=body) as response:
            await response.read()
