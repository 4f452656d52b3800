"""The load that the figures are of: full from its first request on, by a client that keeps up."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from spectap.analysis.verdicts import Finding
from spectap.tap.token_meter import Meter
from tests.servers.conftest import Measure
from tests.servers.scripted import TOKENS, Exchange, chunk, on_sd, usage

DEFAULTS = ("--concurrency", "4", "--requests", "4", "--rounds", "6")


@pytest.mark.parametrize(
    ("slots", "finding"),
    # A third of the steps: with one slot four requests take as long as four thirds of base's.
    [(1, Finding.SLOWER), (2, Finding.FASTER)],
)
def test_a_queue_is_in_a_turn_of_one_wave(measure: Measure, slots: int, finding: Finding) -> None:
    slot = asyncio.Semaphore(slots)

    async def queued(exchange: Exchange) -> None:
        async with slot:
            await exchange.good()

    measured = measure(on_sd(queued), *DEFAULTS)
    assert measured.verdict.finding is finding
    assert "to send: 96 requests" in measured.text  # a half of them fill the loads
    assert len(measured.records) == 48


@contextlib.contextmanager
def half_of_its_core() -> Iterator[None]:
    """Lets no driver that this process starts run more than half of the time."""
    ended = threading.Event()

    def hold() -> None:
        while not ended.is_set():
            drivers = [pid for pid in _children() if b"load.builtin" in _command(pid)]
            for by in (signal.SIGSTOP, signal.SIGCONT):
                for pid in drivers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, by)
                sleep(0.05)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _children() -> list[int]:
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


async def twice_as_fast(exchange: Exchange) -> None:
    await exchange.good(step=2 if exchange.side == "sd" else 1)


def test_a_driver_that_cannot_keep_up_has_no_verdict(measure: Measure) -> None:
    with half_of_its_core():
        measured = measure(twice_as_fast, *DEFAULTS)
    assert measured.verdict.finding is Finding.CLIENT
    assert "the client was too slow for " in measured.text
    assert "within 5 %" not in measured.text


def test_a_tap_that_cannot_keep_up_has_no_verdict(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four streams of 166 events a second, and it takes 500 of all."""
    feed = Meter.feed

    def slowly(meter: Meter, data: bytes, offset: float) -> bytes:
        sleep(0.002 * data.count(b"data: "))
        return feed(meter, data, offset)

    monkeypatch.setattr(Meter, "feed", slowly)
    assert measure(twice_as_fast, *DEFAULTS).verdict.finding is Finding.CLIENT


@contextlib.contextmanager
def open_files(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spectap.tap.tap._allow_open_files", lambda: None)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_too_few_descriptors_end_in_a_line(measure: Measure) -> None:
    with open_files(128):
        measured = measure(twice_as_fast, "--concurrency", "256", "--requests", "256", status=2)
    assert measured.ended.err.strip().splitlines()[-1] == (
        "spectap: concurrency 256 takes about 1,088 file descriptors, and this process may have "
        "128: raise the limit (ulimit -n), or ask for less at once"
    )
    assert not measured.servers.asked["sd"]


def test_a_rate_that_needs_more_descriptors_blames_the_client(measure: Measure) -> None:
    async def answer(exchange: Exchange) -> None:
        await asyncio.sleep(2)
        await exchange.good(4)

    with open_files(128):
        measured = measure(answer, "--rate", "60", "--seconds", "2", "--rounds", "1", status=1)
    assert "the client ran out of file descriptors (ulimit -n)" in measured.text
    assert len(measured.ended.err.splitlines()) < 30
    assert "Traceback" not in measured.text


def test_no_prompt_returns_to_a_server_that_caches(measure: Measure) -> None:
    """A prefill takes 120 ms, and 10 for a prompt that was there before."""
    seen: set[str] = set()
    hits: list[str] = []

    async def answer(exchange: Exchange) -> None:
        prompt = json.dumps(exchange.fields["messages"])
        hit = exchange.side == "sd" and prompt in seen
        if exchange.side == "sd":
            seen.add(prompt)
            hits.extend([prompt] * hit)
        details = {"cached_tokens": 16 if hit else 0}
        await exchange.head()
        await asyncio.sleep(0.01 if hit else 0.12)
        for total in range(1, TOKENS + 1):
            await exchange.step(1, usage=usage(total, prompt_tokens_details=details))
        await exchange.end(chunk({}, "length", usage=usage(TOKENS, prompt_tokens_details=details)))

    measured = measure(answer)
    assert hits == []
    assert {record.cached_tokens for record in measured.records} == {0}
    assert "cache of prefixes" not in measured.text
