"""The ledger against what vLLM's two engines count of one load: both agree with a right one, and
neither with a wrong one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from experiment.runtimes import Engine
from rehearsal.golden.counted import page
from rehearsal.golden.schedule import Step
from rehearsal.golden.sent import Sent
from rehearsal.golden.server import Golden
from spectap.analysis.crosscheck import check
from spectap.endpoint.counters import Count, Counters, parse, scrape
from spectap.record import Record
from tests.spectap import samples
from tests.spectap.tapped import bench, chat

SPECULATIVE = [1, 7, 3, 1, 7, 2, 1, 4]
DRAFTS = 6

SERVERS = {
    "V0, speculative": (Engine.V0, SPECULATIVE, 0),
    "V1, speculative": (Engine.V1, SPECULATIVE, DRAFTS),
}


def changed(record: Record, *chunks: tuple[float, int]) -> Record:
    return replace(record, chunks=chunks, output_tokens=sum(tokens for _, tokens in chunks))


def with_a_token_too_many(record: Record) -> Record:
    *others, (time, tokens) = record.chunks
    return changed(record, *others, (time, tokens + 1))


def with_a_chunk_lost(record: Record) -> Record:
    first, _, *others = record.chunks
    return changed(record, first, *others)


def with_two_chunks_merged(record: Record) -> Record:
    first, (_, earlier), (time, tokens), *others = record.chunks
    return changed(record, first, (time, earlier + tokens), *others)


def with_chunks_taken_for_tokens(record: Record) -> Record:
    return changed(record, *((time, 1) for time, _ in record.chunks))


WRONG = [with_a_token_too_many, with_a_chunk_lost, with_two_chunks_merged]


def served(
    engine: Engine, tokens: list[int], drafts: int, folder: Path
) -> tuple[list[Record], Counters]:
    """Three requests to a golden endpoint, one not streamed before them: ledger and counters."""
    steps = [Step(0.002 * (index + 1), count) for index, count in enumerate(tokens)]

    async def scenario() -> tuple[list[Record], Counters]:
        endpoint = Golden(lambda *_: steps, engine=engine, drafts=drafts)
        async with endpoint as golden, bench(golden.url, folder) as tapped:
            await tapped.direct(chat(stream=False))
            before = await scrape(golden.url)
            await asyncio.gather(*(tapped.post(chat()) for _ in range(3)))
            after = await scrape(golden.url)
            assert before is not None
            assert after is not None
            assert before.tokens == sum(tokens)
            return tapped.records(), after.since(before)

    return asyncio.run(scenario())


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_a_right_ledger_agrees_and_a_wrong_one_does_not(
    server: tuple[Engine, list[int], int], tmp_path: Path
) -> None:
    engine, tokens, drafts = server
    records, counters = served(engine, tokens, drafts, tmp_path)
    count = Count("counting", 1, "SD", tuple(r.request for r in records), counters)
    (found,) = check(records, [count])
    names = ["tokens", "steps", *(["accepted drafts"] if drafts else [])]
    assert [figure.name for figure in found.figures] == names
    assert [figure.ledger for figure in found.figures] == [
        figure.server for figure in found.figures
    ]
    for wrong in WRONG:
        (found,) = check([wrong(records[0]), *records[1:]], [count])
        assert found.failures, wrong.__name__


@pytest.mark.parametrize("engine", Engine)
def test_a_ledger_of_chunks_fails_where_the_server_seems_to_count_them_too(engine: Engine) -> None:
    """V0's ``generation_tokens_total`` is as wrong as such a ledger, by the same amount."""
    requests = [answer(SPECULATIVE)]
    records = [with_chunks_taken_for_tokens(record) for record in ledger(requests)]
    (found,) = check(records, [counted(engine, requests)])
    assert any(
        line.startswith("counting, SD: tokens: 8 in the ledger, 26") for line in found.failures
    )


def answer(tokens: list[int]) -> Sent:
    chunks = [(0.1 * index, count) for index, count in enumerate(tokens)]
    return Sent(id="", received=0, prompt="say it", chunks=chunks, whole=True)


def ledger(requests: list[Sent]) -> list[Record]:
    return [
        changed(samples.record(request=str(number)), *request.chunks)
        for number, request in enumerate(requests)
    ]


def counted(engine: Engine, requests: list[Sent], drafts: int = 0) -> Count:
    counters = parse(page(engine, "m", requests, drafts=drafts))
    assert counters is not None
    names = tuple(map(str, range(len(requests))))
    return Count("counting", 1, "SD", names, counters)


# So few tokens in all that one of them is more than the tolerance.
answers = st.lists(
    st.lists(st.integers(1, DRAFTS + 1), max_size=6).map(lambda later: answer([1, *later])),
    min_size=1,
    max_size=2,
)
servers = st.sampled_from([(Engine.V0, 0), (Engine.V1, 0), (Engine.V1, DRAFTS)])


@given(answers, servers)
def test_any_right_ledger_agrees(requests: list[Sent], server: tuple[Engine, int]) -> None:
    (found,) = check(ledger(requests), [counted(server[0], requests, server[1])])
    assert found.failures == ()
    assert {figure.name for figure in found.figures} <= {"tokens", "steps", "accepted drafts"}
    for figure in found.figures:
        assert figure.ledger == figure.server


@given(answers, servers, st.sampled_from(WRONG))
def test_no_wrong_ledger_agrees(
    requests: list[Sent], server: tuple[Engine, int], wrong: Callable[[Record], Record]
) -> None:
    first, *others = ledger(requests)
    assume(len(first.chunks) > 2)
    (found,) = check([wrong(first), *others], [counted(server[0], requests, server[1])])
    assert found.failures
