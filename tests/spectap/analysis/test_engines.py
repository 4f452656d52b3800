"""The ledger against what vLLM's two engines count of one load: both agree with a right one, and
neither with a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from experiment.runtimes import Engine
from rehearsal.golden.counted import page
from rehearsal.golden.sent import Sent
from spectap.analysis.crosscheck import check
from spectap.endpoint.counters import Count, parse
from spectap.record import Record
from tests.spectap import samples

SPECULATIVE = [1, 7, 3, 1, 7, 2, 1, 4]
DRAFTS = 6


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
    read = parse(page(engine, "m", requests, drafts=drafts))
    assert read is not None
    names = tuple(map(str, range(len(requests))))
    return Count("counting", 1, "SD", names, read.counters)


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
