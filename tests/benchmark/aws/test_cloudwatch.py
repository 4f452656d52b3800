"""Values into CloudWatch, each at most once, whatever happens: moto behind a loopback port."""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from botocore.serialize import create_serializer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from moto.cloudwatch.models import cloudwatch_backends
from werkzeug.wrappers import Response

from benchmark import metrics, names
from benchmark import metrics as catalogue
from benchmark.aws import cloudwatch
from benchmark.aws.cloudwatch import Call, Publisher, plan
from benchmark.errors import PublishError
from benchmark.journal import Journal
from benchmark.record import Record
from tests.benchmark import samples
from tests.benchmark.aws.test_bucket import Aws, Clock, Environment, hang_up, serving

ACCOUNT = "123456789012"  # moto's own
REGION = "us-east-2"
CASE = "counting"

# A full minute, an hour ago.
HOUR_AGO = float(int(time.time()) // 3600 * 3600 - 3600)

# Minute in Unix seconds, variant, metric, unit, value.
Published = Counter[tuple[float, str, str, str, float]]


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    aws = Aws()
    yield aws
    aws.stop()


@pytest.fixture
def aws(server: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with serving(server, monkeypatch):
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


def record(**changes: Any) -> Record:
    return samples.record(**({"sent": HOUR_AGO} | changes))


def requests(count: int, chunks: int = 3) -> list[Record]:
    """Requests of both variants, four a second, no two alike."""
    return [
        record(
            variant=names.VARIANTS[number % 2],
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
    found: Published = Counter()
    data: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    for datum in data:
        dimensions = {dimension.name: dimension.value for dimension in datum.dimensions}
        assert datum.namespace == "Qwen/LLMPerf"
        assert dimensions.pop("TestCase") == CASE
        variant = dimensions.pop("Variant")
        assert not dimensions
        found[datum.timestamp.timestamp(), variant, datum.name, datum.unit, datum.value] += 1
    return found


def planned(calls: Sequence[Call]) -> Published:
    found: Published = Counter()
    for call in calls:
        for minute, variant, metric, values in call.data:
            for value, count in values:
                found[minute, variant, metric.name, metric.unit, value] += count
    return found


def expected(records: Sequence[Record]) -> Published:
    """Every request's values, by their definitions; llmperf's latency by the ledger."""
    found: Published = Counter()
    for one in records:
        values: dict[str, Sequence[float | None]] = {
            "TTFT": [metrics.ttft(one)],
            "InterTokenLatency": [metrics.llmperf_inter_token_latency(one)],
            "EndToEndLatency": [metrics.end_to_end(one)],
            "RequestOutputThroughput": [metrics.output_throughput(one)],
            "InputTokens": [one.prompt_tokens],
            "OutputTokens": [one.output_tokens],
            "TimePerOutputToken": [metrics.time_per_output_token(one)],
            "InterChunkLatency": metrics.inter_chunk_latencies(one),
            "TokensPerStep": [metrics.tokens_per_step(one)],
        }
        ended = (one.sent + one.end) // 60 * 60
        for metric in catalogue.METRICS:
            for value in values[metric.name]:
                if one.succeeded and one.round and value is not None:
                    key = (ended, one.variant, metric.name, metric.unit, round(float(value), 9))
                    found[key] += 1
    return found


def calls_made(aws: Aws) -> int:
    return len(aws.asked)


def refusal(status: int, code: str) -> Response:
    body = json.dumps({"__type": f"com.amazon.coral.service#{code}", "message": "in\ntrouble"})
    return Response(body, status, content_type="application/x-amz-json-1.0")


def journal(run_dir: Path) -> list[str]:
    lines = (run_dir / "published.jsonl").read_text().splitlines()
    return [json.loads(line)["fate"] for line in lines]


def values_of(metric: catalogue.Metric) -> list[float]:
    return sorted(
        value
        for (_, _, name, _, value), count in published().items()
        for _ in range(count)
        if name == metric.name
    )


@pytest.mark.usefixtures("aws")
def test_every_value_of_every_request_is_published(tmp_path: Path) -> None:
    records = [
        record(variant="Base", chunks=((0.1, 1), (0.2, 1)), output_tokens=2),
        record(),
        record(sent=HOUR_AGO + 59.6),  # ends in the next minute
    ]
    Publisher(REGION, tmp_path).publish(CASE, 1, records, {})

    assert published() == expected(records)
    assert {name for _, _, name, _, _ in published()} == {
        metric.name for metric in catalogue.METRICS
    }


@pytest.mark.usefixtures("aws")
def test_dashboards_can_read_it(tmp_path: Path) -> None:
    records = requests(40)
    Publisher(REGION, tmp_path).publish(CASE, 1, records, {})

    metric = {
        "Namespace": "Qwen/LLMPerf",
        "MetricName": "InterChunkLatency",
        "Dimensions": [{"Name": "Variant", "Value": "SD"}, {"Name": "TestCase", "Value": CASE}],
    }
    began = datetime.fromtimestamp(HOUR_AGO, UTC)
    answer = boto3.client("cloudwatch", region_name=REGION).get_metric_data(
        MetricDataQueries=[
            {
                "Id": statistic.lower(),
                "MetricStat": {"Metric": metric, "Period": 60, "Stat": statistic},
            }
            for statistic in ("SampleCount", "Average")
        ],
        StartTime=began,
        EndTime=began + timedelta(minutes=5),
    )
    count, average = (result["Values"] for result in answer["MetricDataResults"])
    assert count == [20 * 2]
    gaps = [gap for one in records[1::2] for gap in metrics.inter_chunk_latencies(one)]
    assert average == [pytest.approx(fmean(gaps))]


@pytest.mark.usefixtures("aws")
def test_thousand_requests_in_full(tmp_path: Path) -> None:
    records = requests(1000, chunks=30)
    Publisher(REGION, tmp_path).publish(CASE, 1, records, {})

    assert published() == expected(records)


def test_failed_requests_and_the_warm_up_are_left_out(aws: Aws, tmp_path: Path) -> None:
    publisher = Publisher(REGION, tmp_path)
    publisher.publish(CASE, 0, [record(round=0)], {"SD": [0.1]})
    publisher.publish(CASE, 1, [record(error="reset"), record(status=500), record(round=0)], {})

    assert calls_made(aws) == 0
    assert published() == Counter()


@pytest.mark.usefixtures("aws")
def test_without_counts_per_chunk_what_is_defined_is_published(tmp_path: Path) -> None:
    uncounted = record(per_chunk=False, chunks=((0.2, 0), (0.4, 0)), prompt_tokens=None)
    Publisher(REGION, tmp_path).publish(CASE, 1, [uncounted], {})

    assert published() == expected([uncounted])
    assert values_of(catalogue.TOKENS_PER_STEP) == values_of(catalogue.INPUT_TOKENS) == []
    assert values_of(catalogue.TIME_PER_OUTPUT_TOKEN) == [pytest.approx(0.2 / 7)]


@pytest.mark.usefixtures("aws")
def test_llmperf_s_own_latency_is_published_as_it_says(tmp_path: Path) -> None:
    records = [record(variant="Base"), record(request="a"), record(request="b")]
    Publisher(REGION, tmp_path).publish(CASE, 1, records, {"SD": [0.5, 0.25], "Base": []})

    own = metrics.llmperf_inter_token_latency(records[0])
    assert values_of(catalogue.INTER_TOKEN_LATENCY) == [pytest.approx(own), 0.25, 0.5]


@pytest.mark.parametrize(
    ("values", "minutes"),
    [([0.1, 0.2, 0.3], [0, 1, 2]), ([0.2, 0.3], [1, 2]), ([0.0, 0.1, 0.2, 0.3], [0, 0, 1, 2])],
)
def test_llmperf_s_latencies_lie_where_their_requests_ended(
    values: list[float], minutes: list[int]
) -> None:
    records = [record(sent=HOUR_AGO + 60 * minute, request=str(minute)) for minute in (2, 0, 1)]

    found = planned(plan(CASE, 1, records, {"SD": values}))

    assert sorted(
        ((minute - HOUR_AGO) / 60, value)
        for minute, _, name, _, value in found
        if name == "InterTokenLatency"
    ) == list(zip(minutes, values, strict=True))


def test_throttled_twice_then_taken(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    answers = [refusal(400, "Throttling"), refusal(400, "ThrottlingException")]
    aws.before = lambda _: answers.pop(0) if answers else None

    Publisher(REGION, tmp_path, sleep=clock.sleep).publish(CASE, 1, [record()], {})

    assert published() == expected([record()])
    assert len(clock.pauses) == 2
    assert journal(tmp_path) == ["begun", "refused"] * 2 + ["begun", "taken"]


@pytest.mark.parametrize(
    ("status", "code"), [(500, "InternalServiceFault"), (503, "ServiceUnavailable")]
)
def test_nothing_is_lost_when_cloudwatch_fails_for_a_minute(
    aws: Aws, tmp_path: Path, clock: Clock, status: int, code: str
) -> None:
    aws.before = lambda _: refusal(status, code) if clock.now < 60 else None

    Publisher(REGION, tmp_path, sleep=clock.sleep).publish(CASE, 1, [record()], {})

    assert published() == expected([record()])


def test_nothing_is_lost_when_cloudwatch_refuses_connections_for_a_minute(
    aws: Aws, tmp_path: Path, clock: Clock
) -> None:
    aws.stop()
    clock.at[60] = aws.start

    Publisher(REGION, tmp_path, sleep=clock.sleep).publish(CASE, 1, [record()], {})

    assert published() == expected([record()])


def test_after_minutes_it_gives_up_and_a_later_call_catches_up(
    aws: Aws, tmp_path: Path, clock: Clock
) -> None:
    publisher = Publisher(REGION, tmp_path, sleep=clock.sleep)
    aws.before = lambda _: refusal(400, "Throttling")
    with pytest.raises(PublishError, match=r"^CloudWatch us-east-2: failing for 5 min[^\n]*$"):
        publisher.publish(CASE, 1, [record()], {})
    assert clock.now <= 300
    assert published() == Counter()

    aws.behave()
    publisher.publish(CASE, 1, [record()], {})

    assert published() == expected([record()])


def test_access_denied_is_one_line_and_not_tried_again(
    aws: Aws, tmp_path: Path, clock: Clock
) -> None:
    aws.before = lambda _: refusal(403, "AccessDenied")

    with pytest.raises(PublishError, match=r"AccessDenied.*cloudwatch:PutMetricData[^\n]*$"):
        Publisher(REGION, tmp_path, sleep=clock.sleep).publish(CASE, 1, [record()], {})

    assert calls_made(aws) == 1
    assert clock.pauses == []


def test_second_time_nothing_is_sent(aws: Aws, tmp_path: Path) -> None:
    publisher = Publisher(REGION, tmp_path)
    for one in (publisher, publisher, Publisher(REGION, tmp_path)):
        one.publish(CASE, 1, [record()], {})

    assert calls_made(aws) == 1
    assert published() == expected([record()])


@pytest.mark.usefixtures("aws")
def test_rounds_are_published_apart(tmp_path: Path) -> None:
    publisher = Publisher(REGION, tmp_path)
    publisher.publish(CASE, 1, [record()], {})
    publisher.publish(CASE, 2, [record(round=2)], {})

    assert published() == expected([record(), record()])


def test_call_that_got_no_answer_is_not_made_again(
    aws: Aws, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    aws.after = hang_up
    Publisher(REGION, tmp_path, sleep=clock.sleep).publish(CASE, 1, [record()], {})
    aws.behave()
    Publisher(REGION, tmp_path, sleep=clock.sleep).publish(CASE, 1, [record()], {})

    assert published() == expected([record()])
    assert journal(tmp_path) == ["begun", "unknown"]
    assert [message.split(" may or")[0] for message in caplog.messages] == [
        "counting, round 1: 10 values"
    ]


# Publishes the ledger beside it, until it is killed.
_CHILD = f"""
import sys
from pathlib import Path
from benchmark.aws import cloudwatch
from benchmark.ledger import read_ledger
cloudwatch.DATA_PER_CALL = 5
run_dir = Path(sys.argv[1])
cloudwatch.Publisher("{REGION}", run_dir).publish(
    "{CASE}", 1, read_ledger(run_dir / "ledger.jsonl"), {{}}
)
"""


@pytest.mark.parametrize("taken", [False, True])
def test_killed_in_the_middle_nothing_is_published_twice(
    aws: Aws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    taken: bool,
) -> None:
    records = requests(4)
    with Journal(tmp_path / "ledger.jsonl") as ledger:
        for one in records:
            ledger.append(one)
    children: list[subprocess.Popen[bytes]] = []

    def kill(_: Environment) -> Response | None:
        if calls_made(aws) != 2:
            return None
        os.kill(children[0].pid, signal.SIGKILL)
        return refusal(503, "ServiceUnavailable")

    if taken:
        aws.after = kill
    else:
        aws.before = kill
    with subprocess.Popen([sys.executable, "-c", _CHILD, str(tmp_path)]) as child:
        children.append(child)
        assert child.wait(30) == -signal.SIGKILL
    assert journal(tmp_path) == ["begun", "taken", "begun"]

    aws.behave()
    monkeypatch.setattr(cloudwatch, "DATA_PER_CALL", 5)
    Publisher(REGION, tmp_path).publish(CASE, 1, records, {})

    calls = plan(CASE, 1, records, {})
    assert len(calls) > 3
    lost: Published = Counter() if taken else planned(calls[1:2])
    assert published() == expected(records) - lost
    assert len(caplog.messages) == 1


def test_answer_that_cannot_be_read_is_no_answer(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    aws.before = lambda _: Response(b"\xff", 502)
    Publisher(REGION, tmp_path, sleep=clock.sleep).publish(CASE, 1, [record()], {})

    assert calls_made(aws) == 1
    assert journal(tmp_path) == ["begun", "unknown"]


def test_killed_between_two_attempts_nothing_is_lost(
    aws: Aws, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def killed(_: float) -> None:
        raise KeyboardInterrupt

    aws.before = lambda _: refusal(400, "Throttling")
    with pytest.raises(KeyboardInterrupt):
        Publisher(REGION, tmp_path, sleep=killed).publish(CASE, 1, [record()], {})
    aws.behave()
    Publisher(REGION, tmp_path).publish(CASE, 1, [record()], {})

    assert published() == expected([record()])
    assert not caplog.messages


def test_restart_sends_the_calls_that_were_never_begun(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudwatch, "DATA_PER_CALL", 5)
    records = requests(4)
    aws.before = lambda _: refusal(403, "AccessDenied") if calls_made(aws) > 2 else None
    with pytest.raises(PublishError):
        Publisher(REGION, tmp_path).publish(CASE, 1, records, {})
    aws.behave()
    Publisher(REGION, tmp_path).publish(CASE, 1, list(reversed(records)), {})

    assert calls_made(aws) == len(plan(CASE, 1, records, {})) - 2
    assert published() == expected(records)


def test_torn_last_line_of_the_journal_is_a_call_in_flight(aws: Aws, tmp_path: Path) -> None:
    Publisher(REGION, tmp_path).publish(CASE, 1, [record()], {})
    path = tmp_path / "published.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    Publisher(REGION, tmp_path).publish(CASE, 1, [record()], {})

    assert calls_made(aws) == 1
    assert journal(tmp_path) == ["begun", "unknown"]


def test_unreadable_journal_stops_publishing_in_one_line(aws: Aws, tmp_path: Path) -> None:
    (tmp_path / "published.jsonl").write_text("?\n")

    with pytest.raises(PublishError, match=r"published\.jsonl: cannot be gone on with: [^\n]*$"):
        Publisher(REGION, tmp_path).publish(CASE, 1, [record()], {})

    assert calls_made(aws) == 0


def test_values_that_came_after_are_not_mixed_with_those_published(
    aws: Aws, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Publisher(REGION, tmp_path).publish(CASE, 1, [record()], {})
    Publisher(REGION, tmp_path).publish(CASE, 1, [record(), record(end=0.6)], {})

    assert calls_made(aws) == 1
    assert "published before, when the values were others" in caplog.text


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("away", [timedelta(days=-15), timedelta(hours=3)])
def test_what_cloudwatch_would_refuse_for_its_time_is_left_out(
    tmp_path: Path, away: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    far = record(sent=time.time() + away.total_seconds())
    with caplog.at_level(logging.WARNING):
        Publisher(REGION, tmp_path).publish(CASE, 1, [far, record()], {})

    assert published() == expected([record()])
    assert "left out 9 of 18 data" in caplog.text


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    """Requests of a few shapes, many of them equal, over a few minutes."""
    chunk = st.tuples(st.integers(1, 60_000_000).map(lambda us: us / 1e6), st.integers(0, 8))
    one = st.builds(
        record,
        variant=st.sampled_from(names.VARIANTS),
        round=st.sampled_from([0, 1, 1, 1]),
        error=st.sampled_from([None, None, None, "reset"]),
        prompt_tokens=st.none() | st.integers(1, 4096),
        output_tokens=st.none() | st.integers(1, 4096),
        per_chunk=st.booleans(),
        sent=st.integers(0, 300).map(lambda seconds: HOUR_AGO + seconds),
        chunks=st.lists(chunk, max_size=40).map(lambda chunks: tuple(sorted(chunks))),
        end=st.integers(1, 90_000_000).map(lambda us: us / 1e6),
    )
    shapes = draw(st.lists(one, min_size=1, max_size=8))
    return draw(st.lists(st.sampled_from(shapes), max_size=60))


@given(runs(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_plan_has_every_value_once_in_any_order(records: list[Record], random: Any) -> None:
    calls = plan(CASE, 1, records, {})
    shuffled = list(records)
    random.shuffle(shuffled)

    assert planned(calls) == expected(records)
    assert plan(CASE, 1, shuffled, {}) == calls


@given(st.integers(1, 1200), st.integers(2, 30), st.sampled_from(["a", "x" * 64]))
@settings(max_examples=3, deadline=None)
@example(1000, 30, "x" * 64)
def test_calls_keep_the_limits_of_cloudwatch(count: int, chunks: int, case: str) -> None:
    records = requests(count, chunks)
    calls = plan(case, 1, records, {})

    assert planned(calls) == expected(records)
    for call in calls:
        assert 1 <= len(call.data) <= 1000
        for datum in call.data:
            values = [value for value, _ in datum.values]
            assert 1 <= len(values) == len(set(values)) <= 150
            assert all(times >= 1 for _, times in datum.values)
    for protocol in ("smithy-rpc-v2-cbor", "json", "query"):
        assert all(size(call, protocol) < 900_000 for call in calls)


def size(call: Call, protocol: str) -> int:
    """Bytes of the request's body before compression, by the SDK's own serialiser."""
    body = create_serializer(protocol).serialize_to_request(
        {
            "Namespace": names.NAMESPACE,
            "MetricData": [datum.parameters(call.case) for datum in call.data],
        },
        _put_metric_data(),
    )["body"]
    return len(urlencode(body) if isinstance(body, dict) else body)


@functools.cache
def _put_metric_data() -> Any:
    """The SDK's own description of the call."""
    client = boto3.client("cloudwatch", region_name=REGION)
    return client.meta.service_model.operation_model("PutMetricData")
