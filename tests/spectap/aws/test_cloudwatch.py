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
from collections.abc import Sequence
from dataclasses import replace
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

from spectap import metrics
from spectap.analysis.summarise import summarise
from spectap.aws.cloudwatch import Publisher, calls, data, parts, totals
from spectap.errors import BucketError, PublishError
from spectap.journal import Journal
from spectap.metrics import (
    INPUT_TOKENS,
    INTER_TOKEN_LATENCY,
    METRICS,
    REQUEST_TIME,
    SERVED_TOKENS,
    TIME_PER_OUTPUT_TOKEN,
    TOKENS_PER_STEP,
    TOTALS,
    inter_chunk_latencies,
    llmperf_inter_token_latency,
)
from spectap.record import Record
from tests.spectap import samples
from tests.spectap.aws.embedded import Aws, Clock, Environment, hang_up

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
    found: Published = Counter()
    data: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    for datum in data:
        dimensions = {dimension.name: dimension.value for dimension in datum.dimensions}
        assert datum.namespace == "Qwen/LLMPerf"
        assert dimensions.pop("Experiment") == "article"
        assert dimensions.pop("TestCase") == CASE
        variant = dimensions.pop("Variant")
        assert not dimensions
        found[datum.timestamp.timestamp(), variant, datum.name, datum.unit, datum.value] += 1
    return found


def planned(records: Sequence[Record]) -> Published:
    """What is in the calls for these requests."""
    found: Published = Counter()
    for call in planned_calls(records):
        for datum in call:
            variant = datum["Dimensions"][1]["Value"]
            minute = datum["Timestamp"].timestamp()
            for value, count in zip(datum["Values"], datum["Counts"], strict=True):
                found[minute, variant, datum["MetricName"], datum["Unit"], value] += count
    return found


def planned_calls(records: Sequence[Record]) -> list[list[dict[str, Any]]]:
    """The data of each call."""
    every = [*(part for record in records for part in parts(record, None)), *totals(records)]
    return [list(data(call, "article")) for call in calls(every)]


def expected(records: Sequence[Record]) -> Published:
    """Every request's values and every turn's totals, in the minutes in which they ended."""
    return values(records) + turn_totals(records)


def values(records: Sequence[Record]) -> Published:
    return Counter(
        (ended([one]), one.variant, metric.name, metric.unit, round(value, 9))
        for one in records
        for metric in METRICS
        for value in map(float, metric.values(one))
    )


def turn_totals(records: Sequence[Record]) -> Published:
    turns: dict[tuple[int, str], list[Record]] = {}
    for one in records:
        turns.setdefault((one.round, one.variant), []).append(one)
    return Counter(
        (ended(own), variant, total.name, total.unit, round(float(total.value(own)), 9))
        for (_, variant), own in turns.items()
        for total in TOTALS
    )


def ended(records: Sequence[Record]) -> float:
    """The minute in which the last of them ended."""
    return max(one.sent + one.end for one in records) // 60 * 60


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
def test_every_value_of_every_request_is_published(tmp_path: Path) -> None:
    records = [
        record(variant="Base", chunks=((0.1, 1), (0.2, 1)), output_tokens=2),
        record(),
        record(sent=HOUR_AGO + 59.6),  # ends in the next minute
    ]
    publisher(tmp_path).publish(records, {})

    assert published() == expected(records)
    assert {name for _, _, name, _, _ in published()} == {one.name for one in (*METRICS, *TOTALS)}


@pytest.mark.usefixtures("aws")
def test_a_failed_request_has_its_time_in_the_turn_s_and_no_values(tmp_path: Path) -> None:
    """The dashboards' cost is then that of the report, which charges for its time, too."""
    failed = record(request="failed", sent=HOUR_AGO + 70, error="reset", output_tokens=3)
    publisher(tmp_path).publish([record(), failed], {})

    assert published() == values([record()]) + turn_totals([record(), failed])
    assert values_of(REQUEST_TIME) == [pytest.approx(record().end + failed.end)]
    assert values_of(SERVED_TOKENS) == [8]


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("by_load", [False, True])
def test_load_points_are_told_apart_where_that_is_asked_for(tmp_path: Path, by_load: bool) -> None:
    """Both are of one round: their requests and their totals must not run into each other."""
    loads = ("concurrency-1", "rate-0.5")
    records = [record(request=load, load=load) for load in loads]
    publisher(tmp_path, by_load=by_load).publish(records, {})

    data: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    served = [datum for datum in data if datum.name == SERVED_TOKENS.name]
    dimensions = [{one.name: one.value for one in datum.dimensions} for datum in served]
    assert {one.get("Load") for one in dimensions} == ({*loads} if by_load else {None})
    assert [datum.value for datum in served] == [8, 8]


@pytest.mark.usefixtures("aws")
def test_dashboards_can_read_it(tmp_path: Path) -> None:
    records = requests(40)
    publisher(tmp_path).publish(records, {})

    metric = {
        "Namespace": "Qwen/LLMPerf",
        "MetricName": "InterChunkLatency",
        "Dimensions": [
            {"Name": "Experiment", "Value": "article"},
            {"Name": "Variant", "Value": "SD"},
            {"Name": "TestCase", "Value": CASE},
        ],
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
    gaps = [gap for one in records[1::2] for gap in inter_chunk_latencies(one)]
    assert average == [pytest.approx(fmean(gaps))]


@pytest.mark.usefixtures("aws")
def test_thousand_requests_in_full(tmp_path: Path) -> None:
    records = requests(1000, chunks=30)
    publisher(tmp_path).publish(records, {})

    assert published() == expected(records)


@pytest.mark.usefixtures("aws")
def test_the_report_s_cost_follows_from_the_sums(tmp_path: Path) -> None:
    """Two rounds with a pause between them; in each, two requests overlap and one fails."""
    config = samples.config()
    records = [
        record(
            request=f"{number} {late}",
            round=number,
            sent=HOUR_AGO + 600 * number + late,
            error="reset" if late == 9 else None,
        )
        for number in (1, 2)
        for late in (0, 0.3, 9)
    ]
    publisher(tmp_path).publish(records, {})

    usd = config.cost.usd_per_million_seconds if config.cost else 0
    time, tokens = (sum(values_of(total)) for total in (REQUEST_TIME, SERVED_TOKENS))
    cell = summarise(config, records).cases[0].cell("SD")
    in_flight = config.load.points[0].concurrency
    assert in_flight is not None
    assert cell.usd_per_million_output_tokens == pytest.approx(usd * time / in_flight / tokens)
    assert time == pytest.approx(2 * 3 * 0.5)
    assert tokens == 2 * 16


@pytest.mark.usefixtures("aws")
def test_without_counts_per_chunk_what_is_defined_is_published(tmp_path: Path) -> None:
    uncounted = record(per_chunk=False, chunks=((0.2, 0), (0.4, 0)), prompt_tokens=None)
    publisher(tmp_path).publish([uncounted], {})

    assert published() == expected([uncounted])
    assert values_of(TOKENS_PER_STEP) == values_of(INPUT_TOKENS) == []
    assert values_of(TIME_PER_OUTPUT_TOKEN) == [pytest.approx(0.2 / 7)]


@pytest.mark.usefixtures("aws")
def test_llmperf_s_own_latency_is_published_as_it_says(tmp_path: Path) -> None:
    records = [record(request="of the ledger"), record(request="a"), record(request="b")]
    publisher(tmp_path).publish(records, {"a": [0.5, 0.25], "b": []})

    own = llmperf_inter_token_latency(records[0])
    assert values_of(INTER_TOKEN_LATENCY) == [pytest.approx(own), 0.25, 0.5]


@pytest.mark.usefixtures("aws")
def test_a_metric_of_the_catalogue_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = replace(TIME_PER_OUTPUT_TOKEN, name="Chunks", values=lambda r: [len(r.chunks)])
    monkeypatch.setattr(metrics, "METRICS", (*METRICS, steps))
    publisher(tmp_path).publish([record()], {})

    assert values_of(steps) == [3]


def test_throttled_twice_then_taken(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    answers = [refusal(400, "Throttling"), refusal(400, "ThrottlingException")]
    aws.before = lambda _: answers.pop(0) if answers else None

    publisher(tmp_path, sleep=clock.sleep).publish([record()], {})

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

    publisher(tmp_path, sleep=clock.sleep).publish([record()], {})

    assert published() == expected([record()])


def test_nothing_is_lost_when_cloudwatch_refuses_connections_for_a_minute(
    aws: Aws, tmp_path: Path, clock: Clock
) -> None:
    aws.stop()
    clock.at[60] = aws.start

    publisher(tmp_path, sleep=clock.sleep).publish([record()], {})

    assert published() == expected([record()])


def test_after_minutes_it_gives_up_and_a_later_call_catches_up(
    aws: Aws, tmp_path: Path, clock: Clock
) -> None:
    same = publisher(tmp_path, sleep=clock.sleep)
    aws.before = lambda _: refusal(400, "Throttling")
    with pytest.raises(PublishError, match=r"^CloudWatch us-east-2: failing for 5 min[^\n]*$"):
        same.publish([record()], {})
    assert clock.now <= 300
    assert published() == Counter()

    aws.behave()
    same.publish([record()], {})

    assert published() == expected([record()])


def test_access_denied_is_one_line_and_not_tried_again(
    aws: Aws, tmp_path: Path, clock: Clock
) -> None:
    aws.before = lambda _: refusal(403, "AccessDenied")

    with pytest.raises(PublishError, match=r"AccessDenied.*cloudwatch:PutMetricData[^\n]*$"):
        publisher(tmp_path, sleep=clock.sleep).publish([record()], {})

    assert calls_made(aws) == 1
    assert clock.pauses == []


def test_second_time_nothing_is_sent(aws: Aws, tmp_path: Path) -> None:
    same = publisher(tmp_path)
    for one in (same, same, publisher(tmp_path)):
        one.publish([record()], {})

    assert calls_made(aws) == 1
    assert published() == expected([record()])


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("other", [{"round": 2}, {"variant": "Base"}])
def test_rounds_and_variants_are_published_apart(tmp_path: Path, other: dict[str, Any]) -> None:
    same, another = publisher(tmp_path), record(request="another", **other)
    same.publish([record()], {})
    same.publish([record(), another], {})

    assert published() == expected([record(), another])


def test_call_that_got_no_answer_is_not_made_again(
    aws: Aws, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    aws.after = hang_up
    publisher(tmp_path, sleep=clock.sleep).publish([record()], {})
    aws.behave()
    publisher(tmp_path, sleep=clock.sleep).publish([record()], {})

    assert published() == expected([record()])
    assert journal(tmp_path) == ["begun"]
    # When the call ends, and once in the process that finds it in the journal.
    assert caplog.messages[0].startswith(
        "2 requests and turns may be missing in CloudWatch: no answer came"
    )
    assert caplog.messages == caplog.messages[:1] * 2


# Publishes the ledger beside it, until it is killed.
_CHILD = f"""
import sys
from pathlib import Path
from spectap.aws.cloudwatch import Publisher
from spectap.ledger import read_ledger
run_dir = Path(sys.argv[1])
publisher = Publisher("article", "{REGION}", run_dir, namespace="Qwen/LLMPerf")
publisher.publish(read_ledger(run_dir / "ledger.jsonl"), {{}})
"""


@pytest.mark.parametrize("taken", [False, True])
def test_killed_in_the_middle_nothing_is_published_twice(
    aws: Aws,
    tmp_path: Path,
    *,
    taken: bool,
) -> None:
    records = requests(4, chunks=3000)  # a call each
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
    publisher(tmp_path).publish(records, {})

    lost: Published = Counter() if taken else expected(records[1:2])
    assert published() == expected(records) - lost


def test_answer_that_cannot_be_read_is_no_answer(aws: Aws, tmp_path: Path, clock: Clock) -> None:
    aws.before = lambda _: Response(b"\xff", 502)
    publisher(tmp_path, sleep=clock.sleep).publish([record()], {})

    assert calls_made(aws) == 1
    assert journal(tmp_path) == ["begun"]


def test_another_machine_knows_of_each_call_before_it_is_made(aws: Aws, tmp_path: Path) -> None:
    """Where the folder is lost with this machine, what was kept of it says what was published."""
    kept: list[tuple[list[str], int]] = []
    one = publisher(tmp_path, keep=lambda: kept.append((journal(tmp_path), calls_made(aws))))
    one.publish([record()], {})

    assert kept == [(["begun"], 0), (["begun", "taken"], 1)]


def test_what_cannot_be_kept_is_not_published(aws: Aws, tmp_path: Path) -> None:
    def refuse() -> None:
        raise BucketError("the bucket cannot be reached")

    with pytest.raises(BucketError):
        publisher(tmp_path, keep=refuse).publish([record()], {})
    assert calls_made(aws) == 0

    publisher(tmp_path).publish([record()], {})
    assert published() == expected([record()])


def test_killed_between_two_attempts_nothing_is_lost(
    aws: Aws, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def killed(_: float) -> None:
        raise KeyboardInterrupt

    aws.before = lambda _: refusal(400, "Throttling")
    with pytest.raises(KeyboardInterrupt):
        publisher(tmp_path, sleep=killed).publish([record()], {})
    aws.behave()
    publisher(tmp_path).publish([record()], {})

    assert published() == expected([record()])
    assert not caplog.messages


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


def test_call_whose_line_is_torn_was_not_made(aws: Aws, tmp_path: Path) -> None:
    (tmp_path / "published.jsonl").write_text('{"state":"begun","parts":["q')
    publisher(tmp_path).publish([record()], {})

    assert published() == expected([record()])
    assert journal(tmp_path) == ["begun", "taken"]


@pytest.mark.parametrize(
    "line",
    ["?", '{"case":"counting","round":1,"plan":"9f86d081884c7d65","call":0,"fate":"taken"}'],
)
def test_journal_of_another_kind_stops_publishing_in_one_line(
    aws: Aws, tmp_path: Path, line: str
) -> None:
    (tmp_path / "published.jsonl").write_text(line + "\n")

    with pytest.raises(PublishError, match=r"published\.jsonl:1: [^\n]*: set a new RUN_ID$"):
        publisher(tmp_path).publish([record()], {})

    assert calls_made(aws) == 0


@pytest.mark.usefixtures("aws")
def test_a_journal_from_before_turns_had_totals_gets_them(tmp_path: Path) -> None:
    lines = [{"state": state, "parts": ["q/0"]} for state in ("begun", "taken")]
    (tmp_path / "published.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    publisher(tmp_path).publish([record()], {})

    assert published() == turn_totals([record()])


@pytest.mark.usefixtures("aws")
def test_requests_that_came_after_are_published_beside_the_others(tmp_path: Path) -> None:
    later = record(request="later", end=0.6)
    publisher(tmp_path).publish([record()], {})
    publisher(tmp_path).publish([record(), later], {})

    assert published() == values([record(), later]) + turn_totals([record()])


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


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    """Requests of a few shapes, many of them equal, over a few minutes."""
    chunk = st.tuples(st.integers(1, 60_000_000).map(lambda us: us / 1e6), st.integers(0, 8))
    one = st.builds(
        record,
        variant=st.sampled_from(VARIANTS),
        prompt_tokens=st.none() | st.integers(1, 4096),
        output_tokens=st.none() | st.integers(1, 4096),
        per_chunk=st.booleans(),
        sent=st.integers(0, 300).map(lambda seconds: HOUR_AGO + seconds),
        chunks=st.lists(chunk, max_size=40).map(lambda chunks: tuple(sorted(chunks))),
        end=st.integers(1, 90_000_000).map(lambda us: us / 1e6),
    )
    shapes = draw(st.lists(one, min_size=1, max_size=8))
    return draw(st.lists(st.sampled_from(shapes), max_size=60))


@given(runs())
@settings(max_examples=60)
def test_calls_have_every_value_once(records: list[Record]) -> None:
    assert planned(records) == expected(records)


@given(st.integers(1, 1200), st.integers(2, 30))
@settings(max_examples=3)
@example(1000, 30)
@example(3, 12_000)
def test_calls_keep_the_limits_of_cloudwatch(count: int, chunks: int) -> None:
    records = [replace(one, case="x" * 64, variant="y" * 64) for one in requests(count, chunks)]

    assert planned(records) == expected(records)
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
