"""The metric catalogue: every figure of a request, from its name to its values.

A metric is one entry of ``METRICS``. What publishes, sums up, prints or draws reads the catalogue.

For chunks i = 0..m-1 at times t_i carrying c_i tokens, n tokens in all: each function says its
formula in these letters. All times in seconds; None where the formula is not defined. The names
TTFT to OutputTokens are the published sample's (aws-neuron-eks-samples,
``speculative_decoding_trn2_vllm/qwen-llmperf-pod.yaml``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from benchmark.record import Record


@dataclass(frozen=True)
class Metric:
    """One figure of a request."""

    name: str
    """In CloudWatch and in ``summary.json``."""
    unit: str
    """A CloudWatch ``StandardUnit``."""
    title: str
    definition: str
    """What it is, in words, for the report."""
    values: Callable[[Record], Iterable[float]]
    """What one request shows: no value where the metric is not defined for it."""


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


def _single(measure: Callable[[Record], float | None]) -> Callable[[Record], Iterable[float]]:
    def values(record: Record) -> Iterable[float]:
        value = measure(record)
        return () if value is None else (value,)

    return values


TTFT: Final = Metric(
    "TTFT",
    "Seconds",
    "Time to first token",
    "From the sending of a request to its first chunk with tokens.",
    _single(ttft),
)
INTER_TOKEN_LATENCY: Final = Metric(
    "InterTokenLatency",
    "Seconds",
    "Inter-token latency as llmperf publishes it",
    "llmperf's own field: the whole time, TTFT included, divided by the number of events.",
    _single(llmperf_inter_token_latency),
)
END_TO_END_LATENCY: Final = Metric(
    "EndToEndLatency",
    "Seconds",
    "End-to-end latency",
    "From the sending of a request to the end of its answer.",
    _single(end_to_end),
)
REQUEST_OUTPUT_THROUGHPUT: Final = Metric(
    "RequestOutputThroughput",
    "Count/Second",
    "Output tokens per second of a request",
    "Output tokens divided by the end-to-end latency.",
    _single(output_throughput),
)
INPUT_TOKENS: Final = Metric(
    "InputTokens",
    "Count",
    "Input tokens",
    "Tokens of the prompt, as the server counts them.",
    _single(lambda record: record.prompt_tokens),
)
OUTPUT_TOKENS: Final = Metric(
    "OutputTokens",
    "Count",
    "Output tokens",
    "Tokens of the answer, as the server counts them.",
    _single(lambda record: record.output_tokens),
)
TIME_PER_OUTPUT_TOKEN: Final = Metric(
    "TimePerOutputToken",
    "Seconds",
    "Time per output token",
    "The time from the first chunk to the last, divided by the tokens after the first chunk.",
    _single(time_per_output_token),
)
INTER_CHUNK_LATENCY: Final = Metric(
    "InterChunkLatency",
    "Seconds",
    "Inter-chunk latency",
    "The time between two chunks: one decoding step, and the pace a reader sees.",
    inter_chunk_latencies,
)
TOKENS_PER_STEP: Final = Metric(
    "TokensPerStep",
    "Count",
    "Tokens per decoding step",
    "Tokens after the first chunk, divided by the number of chunks after it.",
    _single(tokens_per_step),
)

METRICS: Final = (
    TTFT,
    INTER_TOKEN_LATENCY,
    END_TO_END_LATENCY,
    REQUEST_OUTPUT_THROUGHPUT,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    TIME_PER_OUTPUT_TOKEN,
    INTER_CHUNK_LATENCY,
    TOKENS_PER_STEP,
)
