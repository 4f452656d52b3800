"""The measures, against the same definitions computed another way: with exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import botocore.session
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spectap import metrics
from spectap.record import Record
from tests.spectap import samples

MICROSECOND = Fraction(1, 1_000_000)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Record, list[Fraction], list[int]]:
    """A record with the exact gaps and token counts that it was made of."""
    steps = draw(st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 16)), min_size=1))
    gaps = [gap * MICROSECOND for gap, _ in steps]
    tokens = [count for _, count in steps]
    times = [float(sum(gaps[: i + 1], Fraction(0))) for i in range(len(gaps))]
    record = samples.record(
        chunks=tuple(zip(times, tokens, strict=True)),
        output_tokens=sum(tokens),
        end=times[-1] + draw(st.integers(0, 10**6)) / 1e6,
    )
    return record, gaps, tokens


@given(streams())
@settings(max_examples=30)
def test_time_per_output_token(stream: tuple[Record, list[Fraction], list[int]]) -> None:
    record, gaps, tokens = stream
    actual = metrics.time_per_output_token(record)
    if len(gaps) == 1:
        assert actual is None
    else:
        assert actual == pytest.approx(float(sum(gaps[1:]) / sum(tokens[1:])), rel=1e-6, abs=1e-12)


@given(streams())
@settings(max_examples=30)
def test_the_parts_add_up(stream: tuple[Record, list[Fraction], list[int]]) -> None:
    record, gaps, tokens = stream
    assert metrics.end_to_end(record) == record.end
    throughput = metrics.output_throughput(record)
    assert throughput is not None
    assert throughput * record.end == pytest.approx(sum(tokens))
    assert metrics.ttft(record) == pytest.approx(float(gaps[0]))
    latencies = metrics.inter_chunk_latencies(record)
    assert latencies == pytest.approx([float(gap) for gap in gaps[1:]], abs=1e-6)
    per_step, per_token = metrics.tokens_per_step(record), metrics.time_per_output_token(record)
    if len(gaps) > 1:
        assert per_step == pytest.approx(sum(tokens[1:]) / (len(tokens) - 1))
        assert per_step is not None
        assert per_token is not None
        # Time per step is tokens per step by time per token, however the tokens are spread.
        mean_gap = float(sum(gaps[1:]) / (len(gaps) - 1))
        assert per_step * per_token == pytest.approx(mean_gap, rel=1e-6)


@given(streams(), st.integers(2, 8))
def test_only_llmperf_s_figure_depends_on_how_tokens_are_packed(
    stream: tuple[Record, list[Fraction], list[int]], size: int
) -> None:
    """Merging steps into larger chunks, ends kept, leaves the true time per token as it is."""
    record, _, tokens = stream
    assume(len(tokens) > 2)
    chunks = list(record.chunks)
    merged = [chunks[0]]
    for start in range(1, len(chunks), size):
        group = chunks[start : start + size]
        merged.append((group[-1][0], sum(count for _, count in group)))
    packed = samples.record(
        chunks=tuple(merged), output_tokens=record.output_tokens, end=record.end
    )
    true, again = map(metrics.time_per_output_token, (record, packed))
    assert again == pytest.approx(true)
    published, after = map(metrics.llmperf_inter_token_latency, (record, packed))
    assert published is not None
    assert after is not None
    assert after > published


def test_llmperf_s_figure_on_the_published_example() -> None:
    """128 tokens of 13.67 ms in 63 events, of which one carries the role: reported as 28 ms."""
    times = [0.07 + i * 128 * 0.01367 / 62 for i in range(62)]
    record = samples.record(chunks=tuple((time, 2) for time in times))
    assert metrics.llmperf_inter_token_latency(record) == pytest.approx(0.0285, rel=0.02)


def test_without_counts_per_chunk_the_first_chunk_is_taken_for_one_token() -> None:
    record = samples.record(per_chunk=False, chunks=((0.2, 0), (0.3, 0), (0.9, 0)))
    assert metrics.ttft(record) == 0.2
    assert metrics.time_per_output_token(record) == pytest.approx(0.7 / 7)
    assert metrics.tokens_per_step(record) is None
    with_tools = samples.record(tools=True)
    assert metrics.tokens_per_step(with_tools) is None
    assert metrics.time_per_output_token(with_tools) is not None
    unknown = samples.record(per_chunk=False, output_tokens=None, chunks=record.chunks)
    assert metrics.time_per_output_token(unknown) is None
    assert metrics.output_throughput(unknown) is None


@st.composite
def turns(draw: st.DrawFn) -> list[Record]:
    """Requests of one turn, some failed, in tenths of a second after the turn began."""
    requests = st.builds(
        lambda sent, length, **fields: samples.record(
            sent=1_800_000_000.0 + sent / 10, end=length / 10, **fields
        ),
        st.integers(0, 200),
        st.integers(1, 50),
        error=st.none() | st.just("reset"),
        output_tokens=st.none() | st.integers(1, 100),
    )
    return draw(st.lists(requests, min_size=1, max_size=12))


@given(turns())
@settings(max_examples=30)
def test_tokens_a_second_without_a_concurrency_are_those_of_the_time_with_a_request_in_flight(
    records: list[Record],
) -> None:
    """The other way: the tenths of a second with a request in it."""
    tenths = {
        tenth
        for record in records
        for start in (round((record.sent - 1_800_000_000) * 10),)
        for tenth in range(start, start + round(record.end * 10))
    }
    speed = metrics.tokens_per_second(records, None)
    expected = metrics.served_tokens(records) / (len(tenths) / 10)
    assert (speed or 0) == pytest.approx(expected, rel=1e-5)


def test_empty_slots_at_the_end_of_a_turn_do_not_count() -> None:
    """Two slots; one has done its work after a second, the other after four."""
    early, late = samples.record(end=1.0), samples.record(end=4.0)
    assert metrics.tokens_per_second([early, late], 2) == pytest.approx(2 * 16 / 5)
    assert metrics.tokens_per_second([early, late], None) == pytest.approx(16 / 4)


@given(turns(), turns())
@settings(max_examples=20)
def test_totals_of_turns_add_up_to_those_of_the_run(
    records: list[Record], second: list[Record]
) -> None:
    later = [replace(record, sent=record.sent + 3600) for record in second]
    for total in metrics.TOTALS:
        together = total.value([*records, *later])
        assert together == pytest.approx(total.value(records) + total.value(later), abs=1e-5)


def test_tokens_of_failed_requests_do_not_count_and_their_time_does() -> None:
    failed = samples.record(sent=1_800_000_010.0, error="reset")
    for concurrency in (1, None):
        speed = metrics.tokens_per_second([samples.record(), failed], concurrency)
        assert speed == pytest.approx(8 / (0.5 + 0.5))
        assert metrics.tokens_per_second([failed], concurrency) is None
        assert metrics.tokens_per_second([], concurrency) is None


@pytest.mark.parametrize("chunks", [(), ((0.2, 3),)])
def test_what_is_not_defined_is_none(chunks: tuple[tuple[float, int], ...]) -> None:
    record = samples.record(chunks=chunks, status=500, error="HTTP 500")
    assert metrics.time_per_output_token(record) is None
    assert metrics.tokens_per_step(record) is None
    assert metrics.inter_chunk_latencies(record) == ()
    assert metrics.end_to_end(record) is None
    assert metrics.output_throughput(record) is None
    if not chunks:
        assert metrics.ttft(record) is None
        assert metrics.llmperf_inter_token_latency(record) is None


def test_few_requests_of_an_open_loop_get_no_more_than_was_asked_for() -> None:
    # 0.5 a second, which came close together by chance; the first is answered last.
    sent = [0.0, 1.0, 1.5]
    records = [
        samples.record(sent=100 + at, end=end) for at, end in zip(sent, (4, 1, 2), strict=True)
    ]
    assert metrics.open_loop_time(records, 0.5) == pytest.approx(3 / 0.5 + 4.0 - 1.5)
    first = [replace(record, end=0.0) for record in records]
    assert metrics.open_loop_time(first, 0.5) == pytest.approx(3 / 0.5)
    assert metrics.open_loop_time([], 0.5) == 0


def test_names_are_unique_and_units_are_those_of_cloudwatch() -> None:
    model = botocore.session.get_session().get_service_model("cloudwatch")
    published = (*metrics.METRICS, *metrics.TOTALS)
    assert {each.unit for each in published} <= {*model.shape_for("StandardUnit").enum}
    assert len({each.name for each in published}) == len(published)
