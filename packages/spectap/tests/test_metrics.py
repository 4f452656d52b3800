"""The measures, by requests whose figures are known."""

from dataclasses import replace

import botocore.session
import pytest

from spectap import metrics
from tests import samples


def test_figures_of_a_stream() -> None:
    """1 + 4 + 3 tokens at 0.2, 0.3 and 0.4 s; the answer ends at 0.5 s."""
    record = samples.record()
    assert metrics.ttft(record) == 0.2
    assert metrics.time_per_output_token(record) == pytest.approx(0.2 / 7)
    assert metrics.inter_chunk_latencies(record) == pytest.approx((0.1, 0.1))
    assert metrics.tokens_per_step(record) == 3.5
    assert metrics.end_to_end(record) == 0.5
    assert metrics.output_throughput(record) == 16
    assert metrics.llmperf_inter_token_latency(record) == pytest.approx(0.4 / 4)


def test_without_a_concurrency_the_time_with_a_request_in_flight_counts() -> None:
    """0 to 3 s, with one request within another and one that overlaps it, and 10 to 11 s."""
    spans = ((0, 2), (0.5, 1), (1, 3), (10, 11))
    records = [samples.record(sent=100 + start, end=end - start) for start, end in spans]
    assert metrics.tokens_per_second(records, None) == pytest.approx(4 * 8 / 4)


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


def test_empty_slots_at_the_end_of_a_turn_do_not_count() -> None:
    """Two slots; one has done its work after a second, the other after four."""
    early, late = samples.record(end=1.0), samples.record(end=4.0)
    assert metrics.tokens_per_second([early, late], 2) == pytest.approx(2 * 16 / 5)
    assert metrics.tokens_per_second([early, late], None) == pytest.approx(16 / 4)


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
    records = [samples.record(sent=100 + at, end=end) for at, end in ((0, 4), (1, 1), (1.5, 2))]
    assert metrics.open_loop_time(records, 0.5) == pytest.approx(3 / 0.5 + 4.0 - 1.5)
    first = [replace(record, end=0.0) for record in records]
    assert metrics.open_loop_time(first, 0.5) == pytest.approx(3 / 0.5)
    assert metrics.open_loop_time([], 0.5) == 0


def test_names_are_unique_and_units_are_those_of_cloudwatch() -> None:
    model = botocore.session.get_session().get_service_model("cloudwatch")
    published = (*metrics.METRICS, *metrics.TOTALS)
    assert {each.unit for each in published} <= {*model.shape_for("StandardUnit").enum}
    assert len({each.name for each in published}) == len(published)
