"""Values into CloudWatch, each at most once, whatever happens: moto behind a loopback port."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.serialize import create_serializer
from moto.cloudwatch.models import cloudwatch_backends
from werkzeug.wrappers import Response

from spectap.aws import cloudwatch
from spectap.aws.cloudwatch import Publisher, calls, data, items
from spectap.errors import ShippingError
from spectap.metrics import METRICS, SERVED_TOKENS, TOTALS
from spectap.records.record import Record
from tests import samples
from tests.aws.embedded import ACCOUNT, REGION, Aws, Clock, hang_up

CASE = "counting"

# A full minute, an hour ago.
HOUR_AGO = float(int(time.time()) // 3600 * 3600 - 3600)

# Minute in Unix seconds, variant, metric, unit, value.
Published = Counter[tuple[float, str, str, str, float]]


record = partial(samples.record, sent=HOUR_AGO)


def requests(count: int, chunks: int = 3) -> list[Record]:
    """Requests of both variants, four a second, no two alike."""
    return [
        record(
            variant=("Base", "SD")[number % 2],
            request=str(number),
            sent=HOUR_AGO + number / 4,
            chunks=tuple((0.2 + 0.045 * index + 1e-6 * number, 2) for index in range(chunks)),
            end=1 + number / 1000,
        )
        for number in range(count)
    ]


def put() -> Iterator[tuple[Any, dict[str, str]]]:
    """What was put, with its dimensions."""
    data: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    for datum in data:
        yield datum, {dimension.name: dimension.value for dimension in datum.dimensions}


def published() -> Published:
    """What CloudWatch has."""
    counted: Published = Counter()
    for datum, dimensions in put():
        assert datum.namespace == "Qwen/LLMPerf"
        assert dimensions.pop("Experiment") == "article"
        assert dimensions.pop("TestCase") == CASE
        variant = dimensions.pop("Variant")
        assert not dimensions
        counted[datum.timestamp.timestamp(), variant, datum.name, datum.unit, datum.value] += 1
    return counted


def expected(records: Sequence[Record]) -> Published:
    """Every request's values and every turn's totals."""
    return Counter(
        (item.minute, item.variant, metric.name, metric.unit, value)
        for item in items(records)
        for metric, value in item.values
    )


def totals(records: Sequence[Record]) -> Published:
    names = {total.name for total in TOTALS}
    return Counter(value for value in expected(records).elements() if value[2] in names)


def values(records: Sequence[Record]) -> Published:
    return expected(records) - totals(records)


def publisher(run_dir: Path, **options: Any) -> Publisher:
    return Publisher("article", REGION, run_dir, namespace="Qwen/LLMPerf", **options)


def refusal(status: int, code: str) -> Response:
    body = json.dumps({"__type": f"com.amazon.coral.service#{code}", "message": "in\ntrouble"})
    return Response(body, status, content_type="application/x-amz-json-1.0")


def journal(run_dir: Path) -> list[str]:
    lines = (run_dir / "cloudwatch.jsonl").read_text().splitlines()
    return [json.loads(line)["state"] for line in lines]


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
    first.publish([*records, failed])
    of_first = expected([*records, failed])
    assert published() == of_first
    assert {name for _, _, name, *_ in published()} == {each.name for each in (*METRICS, *TOTALS)}
    # By the minute in which a request, or the last of its turn, has ended.
    assert published().keys() >= {
        (HOUR_AGO + 60, "SD", "EndToEndLatency", "Seconds", 0.5),
        (HOUR_AGO, "Base", "RequestTime", "Seconds", 0.5),
        (HOUR_AGO + 60, "SD", "RequestTime", "Seconds", 2.0),
        (HOUR_AGO + 60, "SD", "ServedTokens", "Count", 24.0),
    }

    later = [record(request="later", end=0.6), record(request="second", round=2)]
    for again in (first, publisher(tmp_path), publisher(tmp_path)):
        again.publish([*records, failed, *later])
    # The first round's totals are published already; the second round's are not.
    assert published() == of_first + values(later) + totals(later[1:])


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("by_load", [False, True])
def test_load_points_are_told_apart_where_that_is_asked_for(tmp_path: Path, by_load: bool) -> None:
    """Both are of one round: their requests and their totals must not run into each other."""
    loads = ("concurrency-1", "rate-0.5")
    records = [record(request=load, load=load) for load in loads]
    publisher(tmp_path, by_load=by_load).publish(records)

    served = [pair for pair in put() if pair[0].name == SERVED_TOKENS.name]
    assert {dimensions.get("Load") for _, dimensions in served} == ({*loads} if by_load else {None})
    assert [datum.value for datum, _ in served] == [8, 8]


def test_throttled_twice_then_taken(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    """What was kept of the folder elsewhere says before each call that it was begun."""
    answers = [refusal(400, "Throttling"), refusal(400, "ThrottlingException")]
    aws.before = lambda _: answers.pop(0) if answers else None
    copies: list[tuple[list[str], int]] = []
    publisher(
        tmp_path,
        sleep=clock.sleep,
        keep=lambda: copies.append((journal(tmp_path), len(aws.asked))),
    ).publish([record()])

    assert published() == expected([record()])
    assert len(clock.pauses) == 2
    assert journal(tmp_path) == ["begun", "refused"] * 2 + ["begun", "taken"]
    assert [(states[-1], count) for states, count in copies] == [
        *(("begun", 0), ("begun", 1), ("begun", 2), ("taken", 3))
    ]


def test_what_was_refused_is_caught_up_later(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    first = publisher(tmp_path, sleep=clock.sleep)
    aws.before = lambda _: refusal(403, "AccessDenied")
    with pytest.raises(ShippingError, match=r"AccessDenied.*cloudwatch:PutMetricData[^\n]*$"):
        first.publish([record()])
    aws.behave()

    def refuse() -> None:
        raise ShippingError("the bucket cannot be reached")

    with pytest.raises(ShippingError):
        publisher(tmp_path, keep=refuse).publish([record()])
    assert len(aws.asked) == 0
    assert published() == Counter()
    first.publish([record()])
    assert published() == expected([record()])


@pytest.mark.parametrize("answer", [None, b"\xff"])
def test_a_call_that_got_no_readable_answer_is_not_made_again(
    aws: Aws, tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: bytes | None
) -> None:
    if answer is None:
        aws.after = hang_up
    else:
        aws.before = lambda _: Response(answer, 502)
    publisher(tmp_path).publish([record()])
    assert len(aws.asked) == 1
    aws.behave()
    publisher(tmp_path).publish([record()])

    assert published() == (expected([record()]) if answer is None else Counter())
    assert journal(tmp_path) == ["begun"]
    # When the call ends, and once in the process that finds it in the journal.
    assert caplog.messages[0].startswith(
        "2 requests and turns may be missing in CloudWatch: no answer came"
    )
    assert caplog.messages == caplog.messages[:1] * 2


@pytest.mark.parametrize("attempted", [False, True])
def test_killed_in_the_middle_nothing_is_published_twice(
    aws: Aws,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    attempted: bool,
) -> None:
    """A call that was begun may have been taken: its values are not sent again. One that was
    refused may be."""
    monkeypatch.setattr(cloudwatch, "_BYTES_PER_CALL", 1)
    records = requests(4)  # a call each

    def kill(*_: object) -> None:
        if journal(tmp_path) == ["begun", "taken", "begun"] + ["refused"] * attempted:
            raise KeyboardInterrupt

    if attempted:
        aws.before = lambda _: refusal(400, "Throttling") if len(aws.asked) == 2 else None
    with pytest.raises(KeyboardInterrupt):
        publisher(tmp_path, **{"sleep" if attempted else "keep": kill}).publish(records)
    aws.behave()
    publisher(tmp_path).publish(records)

    lost = Counter() if attempted else values(records[1:2])
    assert published() == expected(records) - lost
    assert bool(caplog.messages) is not attempted


def test_another_journal_is_refused(aws: Aws, tmp_path: Path) -> None:
    (tmp_path / "cloudwatch.jsonl").write_text('{"case":"counting"}\n')
    with pytest.raises(ShippingError, match=r"cloudwatch\.jsonl:1: [^\n]*: set a new RUN_ID$"):
        publisher(tmp_path).publish([record()])
    assert len(aws.asked) == 0


@pytest.mark.parametrize(("count", "chunks"), [(400, 30), (2, 30_000)])
def test_calls_keep_the_limits_of_cloudwatch(count: int, chunks: int) -> None:
    """The bytes are those of the SDK's own serialiser, before compression."""
    records = [
        replace(request, case="x" * 64, variant="y" * 64) for request in requests(count, chunks)
    ]
    service = boto3.client("cloudwatch", region_name=REGION).meta.service_model
    serializer = create_serializer(service.resolved_protocol)
    in_calls: Counter[str] = Counter()
    planned = [[*data(call, "article")] for call in calls(items(records))]
    for call in planned:
        assert 1 <= len(call) <= 1000
        for datum in call:
            assert 1 <= len(datum["Values"]) == len(set(datum["Values"])) <= 150
            in_calls[datum["MetricName"]] += sum(datum["Counts"])
        body = {"Namespace": "Qwen/LLMPerf", "MetricData": call}
        operation = service.operation_model("PutMetricData")
        assert len(serializer.serialize_to_request(body, operation)["body"]) < 900_000
    assert len(planned) >= 2
    assert in_calls == Counter(name for _, _, name, *_ in expected(records).elements())
