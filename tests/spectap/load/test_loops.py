"""When requests are sent."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time

import pytest

from spectap.load import loops


def test_arrivals_are_a_poisson_process() -> None:
    times = loops.arrivals(8, "seed", 4000)
    gaps = [after - before for before, after in itertools.pairwise([0.0, *times])]
    assert min(gaps) > 0
    # Exponential: the deviation is the mean. Both within five standard errors, at this seed.
    assert statistics.fmean(gaps) == pytest.approx(1 / 8, rel=0.08)
    assert statistics.stdev(gaps) == pytest.approx(1 / 8, rel=0.12)


def test_a_seed_gives_the_arrivals() -> None:
    assert loops.arrivals(8, "a", 3) == loops.arrivals(8, "a", 5)[:3]
    assert loops.arrivals(8, "a", 3) != loops.arrivals(8, "b", 3)


@pytest.mark.anyio
async def test_an_open_loop_waits_for_no_answer() -> None:
    ended = asyncio.Event()
    begun: list[str] = []

    async def send(item: str, due: float) -> float:
        begun.append(item)
        if len(begun) == 3:
            ended.set()
        await ended.wait()
        return due

    wall = time.time()
    found = loops.opened("abc", send, offsets=[0.01, 0.02, 0.05], deadline=float("inf"))
    dues = await asyncio.wait_for(found, 10)
    assert begun == [*"abc"]
    assert [due - dues[0] for due in dues] == pytest.approx([0, 0.01, 0.04], abs=1e-5)
    assert wall <= dues[0] - 0.01 <= time.time()


@pytest.mark.anyio
async def test_a_late_request_delays_no_other() -> None:
    late: dict[str, float] = {}

    async def send(item: str, due: float) -> None:
        late[item] = time.time() - due
        if item == "a":
            time.sleep(0.2)

    await loops.opened("abc", send, offsets=[0.0, 0.05, 0.4], deadline=float("inf"))
    assert late["b"] > 0.14
    assert late["c"] < 0.1


@pytest.mark.anyio
async def test_what_is_due_after_the_deadline_is_not_sent() -> None:
    async def send(item: str, due: float) -> str:
        return item

    deadline = time.monotonic() + 0.3
    assert await loops.opened("abc", send, offsets=[0, 0.01, 0.4], deadline=deadline) == ["a", "b"]


@pytest.mark.anyio
async def test_a_closed_loop_begins_nothing_after_the_deadline() -> None:
    async def send(item: str, counts: bool) -> str:
        await asyncio.sleep(0.1)
        return item

    deadline = time.monotonic() + 0.05
    found = await loops.closed("abcd", send, bool, count=4, concurrency=2, deadline=deadline)
    assert found == ["a", "b"]


@pytest.mark.anyio
async def test_a_closed_loop_keeps_its_places_full_until_the_last_that_counts_has_ended() -> None:
    """The first takes as long as many others: these would otherwise leave it alone."""
    in_flight, seen = 0, list[int]()

    async def send(item: int, counts: bool) -> tuple[int, bool]:
        nonlocal in_flight
        in_flight += 1
        for _ in range(20 if item == 0 else 2):
            await asyncio.sleep(0.01)
            if item == 0:
                seen.append(in_flight)
        in_flight -= 1
        return item, counts

    found = await loops.closed(
        itertools.count(), send, bool, count=3, concurrency=3, deadline=float("inf")
    )
    assert sorted(found) == [(0, True), (1, True), (2, True)]
    # A place may be empty for the moment between two of its items.
    assert sum(number == 3 for number in seen) >= 17


@pytest.mark.anyio
async def test_a_server_that_refuses_is_not_asked_without_end() -> None:
    sent: list[tuple[int, bool]] = []

    async def send(item: int, counts: bool) -> bool:
        sent.append((item, counts))
        await asyncio.sleep(0.2 if item == 0 else 0)
        return counts

    await loops.closed(itertools.count(), send, bool, count=2, concurrency=2, deadline=float("inf"))
    assert sent == [(0, True), (1, True), (2, False)]
