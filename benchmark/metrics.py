"""What one request shows, computed from its ledger line and nothing else.

For chunks i = 0..m-1 at times t_i carrying c_i tokens, n tokens in all: each function says its
formula in these letters. All times in seconds; None where the formula is not defined.
"""

from __future__ import annotations

from itertools import pairwise

from benchmark.record import Record


def ttft(record: Record) -> float | None:
    """Time to first token: t_0, counted from when the request was sent."""
    return record.chunks[0][0] if record.chunks else None


def time_per_output_token(record: Record) -> float | None:
    """(t_{m-1} - t_0) / (n - c_0): the tokens of the first chunk took no part of that time.

    Without counts per chunk c_0 is taken for 1, which is what a prefill yields.
    """
    tokens = _tokens_after_first(record)
    if tokens is None or tokens <= 0 or len(record.chunks) < 2:
        return None
    return (record.chunks[-1][0] - record.chunks[0][0]) / tokens


def inter_chunk_latencies(record: Record) -> tuple[float, ...]:
    """t_i - t_{i-1} for i = 1..m-1; empty where there are fewer than two chunks."""
    times = [time for time, _ in record.chunks]
    return tuple(later - earlier for earlier, later in pairwise(times))


def tokens_per_step(record: Record) -> float | None:
    """(n - c_0) / (m - 1), in tokens. Only where the server counted the tokens of each chunk."""
    if not record.per_chunk or len(record.chunks) < 2:
        return None
    return sum(tokens for _, tokens in record.chunks[1:]) / (len(record.chunks) - 1)


def end_to_end(record: Record) -> float | None:
    """From the sending of the request to the end of its answer, if the answer came whole."""
    return record.end if record.succeeded else None


def output_throughput(record: Record) -> float | None:
    """n / end-to-end time, in tokens per second."""
    if not record.succeeded or record.output_tokens is None or record.end <= 0:
        return None
    return record.output_tokens / record.end


def llmperf_inter_token_latency(record: Record) -> float | None:
    """llmperf's "inter-token latency", as published: t_{m-1} / (m + 1).

    It adds up everything until the last content, the time to first token included, and divides by
    the events, taken for tokens; the one that carries only the role counts (llmperf @f1d6bed,
    ``openai_chat_completions_client.py``). Wrong as soon as a chunk carries several tokens; kept
    for comparison.
    """
    if not record.chunks:
        return None
    return record.chunks[-1][0] / (len(record.chunks) + 1)


def _tokens_after_first(record: Record) -> int | None:
    if record.per_chunk:
        return sum(tokens for _, tokens in record.chunks[1:])
    return None if record.output_tokens is None else record.output_tokens - 1
