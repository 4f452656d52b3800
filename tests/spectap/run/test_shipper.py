"""What is shipped, in which order, and that nothing is where nothing is asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from spectap.names import load_results
from spectap.record import Record
from spectap.run.shipper import Shipper, llmperf_latencies
from spectap.run.turns import Turn
from tests.spectap import samples
from tests.spectap.standins import Bucket, Publisher

TURN = Turn(1, "counting", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run-1"
    path.mkdir()
    return path


def test_a_settled_turn_is_published_once_whole_and_without_the_warm_up(folder: Path) -> None:
    """Failed requests have no values of their own, but the turn's totals have their time."""
    published: list[list[str]] = []

    class Spy(Publisher):
        def publish(self, records: Sequence[Record], _: Mapping[str, Sequence[float]]) -> None:
            published.append([record.request for record in records])

    records = [
        samples.record(request="good"),
        samples.record(request="reset", error="reset"),
        samples.record(request="refused", status=500),
        samples.record(request="warm-up", round=0),
        samples.record(request="later", round=2),
    ]
    spy = Spy(folder.parent / "published", [])
    shipper = Shipper(folder, Bucket(folder.parent / "b", []), spy)
    for _ in range(2):
        assert asyncio.run(shipper.ship([TURN], records)) is None
    assert published == [["good", "reset", "refused"]]


def test_of_a_repeated_turn_the_last_attempt_is_published(folder: Path) -> None:
    records = [
        samples.record(request="first"),
        samples.record(request="again", attempt=2),
        samples.record(request="another variant", variant="Base"),
        samples.record(request="its again", variant="Base", attempt=2),
    ]
    publisher = Publisher(folder.parent / "published", [])
    shipper = Shipper(folder, Bucket(folder.parent / "bucket", []), publisher)
    assert asyncio.run(shipper.ship([TURN], records)) is None
    ((_, _, latencies),) = publisher.published()
    assert {*latencies} == {"again", "its again"}


def write(folder: Path, variant: str, latencies: list[float], attempt: int = 1) -> None:
    """llmperf's file of one attempt."""
    fields: dict[str, object] = {
        "ttft_s": 0.1,
        "end_to_end_latency_s": 1,
        "number_output_tokens": 8,
    }
    responses = [
        {**fields, "inter_token_latency_s": value, "error_code": None if value else 500}
        for value in latencies
    ]
    results = folder / load_results(TURN.case, variant, TURN.round, attempt)
    path = results / "m_individual_responses.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(responses), encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.2, 0.3], {"first": [0.1], "second": [0.2], "third": [0.3]}),
        ([0.1, 0, 0.2, 0.3], {"first": [0.1], "second": [0.2], "third": [0.3]}),
        ([0.2, 0.3], {"first": [], "second": [0.2], "third": [0.3]}),
        ([0.0, 0.4, 0.1, 0.2, 0.3], {"first": [0.1, 0.4], "second": [0.2], "third": [0.3]}),
        ([], {}),
        ([0], {}),
    ],
)
def test_llmperf_s_latencies_belong_to_the_requests_that_ended_last(
    folder: Path, values: list[float], expected: dict[str, list[float]]
) -> None:
    write(folder, "SD", [0.9] * 3)
    write(folder, "SD", values, attempt=2)
    records = [
        samples.record(request="third", attempt=2, sent=1.0, end=9.0),
        samples.record(request="first", attempt=2, sent=2.0, end=1.0),
        samples.record(request="second", attempt=2, sent=0.0, end=5.0),
        samples.record(request="of another variant", variant="Base"),
    ]
    assert llmperf_latencies(folder, records) == expected
