"""Values into CloudWatch, each at most once, whatever happens: moto behind a loopback port."""

from __future__ import annotations

import functools
import json
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from botocore.serialize import create_serializer
from moto.cloudwatch.models import cloudwatch_backends
from werkzeug.wrappers import Response

from spectap import metrics
from spectap.aws.cloudwatch import Publisher, calls, data, parts, totals
from spectap.errors import BucketError, PublishError
from spectap.metrics import (
    INTER_TOKEN_LATENCY,
    METRICS,
    SERVED_TOKENS,
    TOTALS,
    llmperf_inter_token_latency,
)
from spectap.record import Record
from tests.spectap import samples
from tests.spectap.aws.embedded import Aws, Clock, hang_up

ACCOUNT = "123456789012"  # moto's own
REGION = "us-east-2"
CASE = "counting"

# A full minute, an hour ago.
HOUR_AGO = float(int(time.time()) // 3600 * 3600 - 3600)

VARIANTS = ("Base", "SD")

# Minute in Unix seconds, variant, metric, unit, value.
Published = Counter[tuple[float, str, str, str, float]]


def record(**changes: Any) -> Record:
    return samples.record(**({"sent": HOUR_AGO} | changes))


def requests(count: int, chunks: int = 3) -> list[Record]:
    """Requests of both variants, four a second, no two alike."""
    return [
        record(
            variant=VARIANTS[number % 2],
            request=str(number),
            sent=HOUR_AGO + number / 4,
            output_tokens=2 * chunks,
            chunks=tuple(
                (round(0.2 + 0.045 * index + 1e-6 * (number * index**2 * 7919 % 40_009), 6), 2)
                for index in range(chunks)
            ),
            end=1 + number / 1000,
        )
        for number in range(count)
    ]


def published() -> Published:
    """What CloudWatch has."""
    counted: Published = Counter()
    data: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    for datum in data:
        dimensions = {dimension.name: dimension.value for dimension in datum.dimensions}
        assert datum.namespace == "Qwen/LLMPerf"
        assert dimensions.pop("Experiment") == "article"
        assert dimensions.pop("TestCase") == CASE
        variant = dimensions.pop("Variant")
        assert not dimensions
        counted[datum.timestamp.timestamp(), variant, datum.name, datum.unit, datum.value] += 1
    return counted


def planned(records: Sequence[Record]) -> Published:
    """What is in the calls for these requests."""
    counted: Published = Counter()
    for call in planned_calls(records):
        for datum in call:
            variant = datum["Dimensions"][1]["Value"]
            minute = datum["Timestamp"].timestamp()
            for value, count in zip(datum["Values"], datum["Counts"], strict=True):
                counted[minute, variant, datum["MetricName"], datum["Unit"], value] += count
    return counted


def planned_calls(records: Sequence[Record]) -> list[list[dict[str, Any]]]:
    """The data of each call."""
    every = [
        *(of_request for record in records for of_request in parts(record, None)),
        *totals(records),
    ]
    return [list(data(call, "article")) for call in calls(every)]


def expected(records: Sequence[Record]) -> Published:
    """Every request's values and every turn's totals, in the minutes in which they ended."""
    return values(records) + turn_totals(records)


def values(records: Sequence[Record]) -> Published:
    return Counter(
        (ended([request]), request.variant, metric.name, metric.unit, round(value, 9))
        for request in records
        for metric in METRICS
        for value in map(float, metric.values(request))
    )


def turn_totals(records: Sequence[Record]) -> Published:
    turns: dict[tuple[int, str], list[Record]] = {}
    for request in records:
        turns.setdefault((request.round, request.variant), []).append(request)
    return Counter(
        (ended(of_turn), variant, total.name, total.unit, round(float(total.value(of_turn)), 9))
        for (_, variant), of_turn in turns.items()
        for total in TOTALS
    )


def ended(records: Sequence[Record]) -> float:
    """The minute in which the last of them ended."""
    return max(request.sent + request.end for request in records) // 60 * 60


def publisher(run_dir: Path, **options: Any) -> Publisher:
    return Publisher("article", REGION, run_dir, namespace="Qwen/LLMPerf", **options)


def calls_made(aws: Aws) -> int:
    return len(aws.asked)


def refusal(status: int, code: str) -> Response:
    body = json.dumps({"__type": f"com.amazon.coral.service#{code}", "message": "in\ntrouble"})
    return Response(body, status, content_type="application/x-amz-json-1.0")


def journal(run_dir: Path) -> list[str]:
    lines = (run_dir / "published.jsonl").read_text().splitlines()
    return [json.loads(line)["state"] for line in lines]


def values_of(metric: metrics.Published) -> list[float]:
    return sorted(
        value
        for (_, _, name, _, value), count in published().items()
        for _ in range(count)
        if name == metric.name
    )


@pytest.mark.usefixtures("aws")
def test_every_value_of_every_request_is_published_once(tmp_path: Path) -> None:
    """A failed request has no values; its time is in the turn's totals, as in the report's cost."""
    failed = record(request="failed", sent=HOUR_AGO + 70, error="reset", output_tokens=3)
    uncounted = record(per_chunk=False, chunks=((0.2, 0), (0.4, 0)), prompt_tokens=None)
    records = [
        record(variant="Base", chunks=((0.1, 1), (0.2, 1)), output_tokens=2),
        record(),
        replace(uncounted, request="uncounted"),
        record(request="late", sent=HOUR_AGO + 59.6),  # ends in the next minute
    ]
    first = publisher(tmp_path)
    first.publish([*records, failed], {})
    expected_values = values(records) + turn_totals([*records, failed])
    assert published() == expected_values
    names_published = {name for _, _, name, _, _ in published()}
    assert names_published == {metric.name for metric in (*METRICS, *TOTALS)}

    later = [record(request="later", end=0.6), record(request="second", round=2)]
    for again in (first, publisher(tmp_path), publisher(tmp_path)):
        again.publish([*records, failed, *later], {})
    # The first round's totals are published already; the second round's are not.
    assert published() == expected_values + values(later) + turn_totals(later[1:])


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("by_load", [False, True])
def test_load_points_are_told_apart_where_that_is_asked_for(tmp_path: Path, by_load: bool) -> None:
    """Both are of one round: their requests and their totals must not run into each other."""
    loads = ("concurrency-1", "rate-0.5")
    records = [record(request=load, load=load) for load in loads]
    publisher(tmp_path, by_load=by_load).publish(records, {})

    data: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    served = [datum for datum in data if datum.name == SERVED_TOKENS.name]
    dimensions = [
        {dimension.name: dimension.value for dimension in datum.dimensions} for datum in served
    ]
    assert {dimension.get("Load") for dimension in dimensions} == ({*loads} if by_load else {None})
    assert [datum.value for datum in served] == [8, 8]


@pytest.mark.usefixtures("aws")
def test_llmperf_s_own_latency_is_published_as_it_says(tmp_path: Path) -> None:
    records = [record(request="of the ledger"), record(request="a"), record(request="b")]
    publisher(tmp_path).publish(records, {"a": [0.5, 0.25], "b": []})

    of_ledger = llmperf_inter_token_latency(records[0])
    assert values_of(INTER_TOKEN_LATENCY) == [pytest.approx(of_ledger), 0.25, 0.5]


def test_throttled_twice_then_taken(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    """What was kept of the folder elsewhere says before each call that it was begun."""
    answers = [refusal(400, "Throttling"), refusal(400, "ThrottlingException")]
    aws.before = lambda _: answers.pop(0) if answers else None
    copies: list[tuple[list[str], int]] = []
    publisher(
        tmp_path,
        sleep=clock.sleep,
        keep=lambda: copies.append((journal(tmp_path), calls_made(aws))),
    ).publish([record()], {})

    assert published() == expected([record()])
    assert len(clock.pauses) == 2
    assert journal(tmp_path) == ["begun", "refused"] * 2 + ["begun", "taken"]
    assert [(states[-1], count) for states, count in copies] == [
        *(("begun", 0), ("begun", 1), ("begun", 2), ("taken", 3))
    ]


def test_what_was_refused_is_caught_up_later(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    first = publisher(tmp_path, sleep=clock.sleep)
    aws.before = lambda _: refusal(400, "Throttling")
    with pytest.raises(PublishError, match=r"^CloudWatch us-east-2: failing for 5 min[^\n]*$"):
        first.publish([record()], {})
    aws.before = lambda _: refusal(403, "AccessDenied")
    with pytest.raises(PublishError, match=r"AccessDenied.*cloudwatch:PutMetricData[^\n]*$"):
        first.publish([record()], {})
    aws.behave()

    def refuse() -> None:
        raise BucketError("the bucket cannot be reached")

    with pytest.raises(BucketError):
        publisher(tmp_path, keep=refuse).publish([record()], {})
    assert calls_made(aws) == 0
    assert published() == Counter()
    first.publish([record()], {})
    assert published() == expected([record()])


@pytest.mark.parametrize("answer", [None, b"\xff"])
def test_a_call_that_got_no_readable_answer_is_not_made_again(
    aws: Aws, tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: bytes | None
) -> None:
    if answer is None:
        aws.after = hang_up
    else:
        aws.before = lambda _: Response(answer, 502)
    publisher(tmp_path).publish([record()], {})
    assert calls_made(aws) == 1
    aws.behave()
    publisher(tmp_path).publish([record()], {})

    assert published() == (expected([record()]) if answer is None else Counter())
    assert journal(tmp_path) == ["begun"]
    # When the call ends, and once in the process that finds it in the journal.
    assert caplog.messages[0].startswith(
        "2 requests and turns may be missing in CloudWatch: no answer came"
    )
    assert caplog.messages == caplog.messages[:1] * 2


@pytest.mark.parametrize("attempted", [False, True])
def test_killed_in_the_middle_nothing_is_published_twice(
    aws: Aws, tmp_path: Path, caplog: pytest.LogCaptureFixture, attempted: bool
) -> None:
    """A call that was begun may have been taken: its values are not sent again. One that was
    refused may be."""
    records = requests(4, chunks=3000)  # a call each

    def kill(*_: object) -> None:
        if journal(tmp_path) == ["begun", "taken", "begun"] + ["refused"] * attempted:
            raise KeyboardInterrupt

    if attempted:
        aws.before = lambda _: refusal(400, "Throttling") if calls_made(aws) == 2 else None
    with pytest.raises(KeyboardInterrupt):
        publisher(tmp_path, **{"sleep" if attempted else "keep": kill}).publish(records, {})
    aws.behave()
    publisher(tmp_path).publish(records, {})

    lost = Counter() if attempted else expected(records[1:2])
    assert published() == expected(records) - lost
    assert bool(caplog.messages) is not attempted


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ('{"state":"begun","parts":["q', ["begun", "taken"]),
        ("?\n", None),
        ('{"case":"counting","round":1,"fate":"taken"}\n', None),
    ],
)
def test_a_torn_line_is_no_call_and_another_journal_is_refused(
    aws: Aws, tmp_path: Path, text: str, states: list[str] | None
) -> None:
    (tmp_path / "published.jsonl").write_text(text)
    if states is None:
        with pytest.raises(PublishError, match=r"published\.jsonl:1: [^\n]*: set a new RUN_ID$"):
            publisher(tmp_path).publish([record()], {})
        assert calls_made(aws) == 0
    else:
        publisher(tmp_path).publish([record()], {})
        assert published() == expected([record()])
        assert journal(tmp_path) == states


@pytest.mark.parametrize("records", [requests(4, chunks=3000), requests(1, chunks=12_000)])
def test_restart_sends_what_was_never_taken(
    aws: Aws, tmp_path: Path, records: list[Record]
) -> None:
    aws.before = lambda _: refusal(403, "AccessDenied") if calls_made(aws) > 2 else None
    with pytest.raises(PublishError):
        publisher(tmp_path).publish(records, {})
    aws.behave()
    publisher(tmp_path).publish(list(reversed(records)), {})

    assert calls_made(aws) == len(planned_calls(records)) - 2 > 0
    assert published() == expected(records)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("away", [timedelta(days=-15), timedelta(hours=3)])
def test_what_cloudwatch_would_refuse_for_its_time_is_left_out(
    tmp_path: Path, away: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    far = record(sent=time.time() + away.total_seconds(), request="far", round=2)
    with caplog.at_level(logging.WARNING):
        publisher(tmp_path).publish([far, record()], {})

    assert published() == expected([record()])
    assert "left out 2 of 4 requests and turns" in caplog.text


@pytest.mark.parametrize(("count", "chunks"), [(200, 30), (2, 12_000)])
def test_calls_keep_the_limits_of_cloudwatch(count: int, chunks: int) -> None:
    records = [
        replace(request, case="x" * 64, variant="y" * 64) for request in requests(count, chunks)
    ]

    assert planned(records) == expected(records)
    assert len(planned_calls(records)) > 2
    for call in planned_calls(records):
        assert 1 <= len(call) <= 1000
        for datum in call:
            assert 1 <= len(datum["Values"]) == len(set(datum["Values"])) <= 150
            assert all(times >= 1 for times in datum["Counts"])
        for protocol in ("smithy-rpc-v2-cbor", "json", "query"):
            assert size(call, protocol) < 900_000


def size(call: list[dict[str, Any]], protocol: str) -> int:
    """Bytes of the request's body before compression, by the SDK's own serialiser."""
    body = create_serializer(protocol).serialize_to_request(
        {"Namespace": "Qwen/LLMPerf", "MetricData": call}, _put_metric_data()
    )["body"]
    return len(urlencode(body) if isinstance(body, dict) else body)


@functools.cache
def _put_metric_data() -> Any:
    """The SDK's own description of the call."""
    client = boto3.client("cloudwatch", region_name=REGION)
    return client.meta.service_model.operation_model("PutMetricData")
