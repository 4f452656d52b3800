"""The metric catalogue: every figure of a request, from its name to its values.

A metric is one entry of ``METRICS``; everything that publishes, sums up, prints or draws reads it.

A request is sent at t_s, its chunks i = 0..m-1 arrive at times t_i with c_i tokens each, and n is
the sum of the c_i. Functions return seconds, counted from t_s, and None where the formula is not
defined. The names TTFT, InterTokenLatency, EndToEndLatency, RequestOutputThroughput, InputTokens
and OutputTokens are the published sample's
(aws-neuron-eks-samples, ``speculative_decoding_trn2_vllm/qwen-llmperf-pod.yaml``).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Final

from spectap.records.record import Record

_AXES: Final = {"Seconds": "seconds", "Count": "tokens", "Count/Second": "tokens per second"}


@dataclass(frozen=True, kw_only=True)
class Published:
    """A figure that goes to CloudWatch."""

    name: str
    """In CloudWatch; a metric's in ``summary.json``, too."""
    unit: str
    """A CloudWatch ``StandardUnit``."""


@dataclass(frozen=True, kw_only=True)
class Metric(Published):
    """One figure of a request."""

    title: str
    short: str
    """The title in a table's head."""
    definition: str
    """The definition in words, for the report: t, c, m and n are those of this module."""
    values: Callable[[Record], Iterable[float]]
    """The values of one request: none where the metric is not defined for it."""
    printed: str = ""
    """The unit that it is printed in; empty for a count."""
    percentiles: tuple[str, ...] = ()
    """The percentiles among ``p50``, ``p90`` and ``p99`` that the terminal's table shows."""

    @property
    def axis(self) -> str:
        """The unit in words, for the axes of dashboards."""
        return _AXES[self.unit]

    @property
    def scale(self) -> float:
        """The factor by which a value is multiplied to be printed."""
        return 1000 if self.printed == "ms" else 1

    @property
    def heading(self) -> str:
        """The short title with the printed unit, if it has one: ``TPOT, ms``."""
        return f"{self.short}, {self.printed}" if self.printed else self.short


@dataclass(frozen=True, kw_only=True)
class Total(Published):
    """One figure of the requests of a variant together; those of several turns add up."""

    value: Callable[[Iterable[Record]], float]
    """The total over the requests, those that failed included."""


def ttft(record: Record) -> float | None:
    """Time to first token: t_0 - t_s."""
    return record.chunks[0][0] if record.chunks else None


def time_per_output_token(record: Record) -> float | None:
    """(t_{m-1} - t_0) / (n - c_0): the first chunk's tokens were made before that time began.

    Without counts per chunk c_0 is taken as 1, which is what a prefill yields. None where c_0 is
    unknown, because thoughts came before it that were not sent.
    """
    tokens = 0 if record.hidden_tokens else (record.output_tokens or 0) - 1
    if record.per_chunk:
        tokens = sum(record.counts[1:])
    if tokens <= 0 or len(record.chunks) < 2 or record.choices > 1:
        return None
    return (record.chunks[-1][0] - record.chunks[0][0]) / tokens


def inter_chunk_latencies(record: Record) -> tuple[float, ...]:
    """t_i - t_{i-1} for i = 1..m-1; empty where there are fewer than two chunks."""
    times = record.times
    return tuple(map(sub, times[1:], times))


def tokens_per_step(record: Record) -> float | None:
    """(n - c_0) / (m - 1), in tokens. Defined where each chunk is a step with a known count."""
    if not record.shows_steps or len(record.chunks) < 2:
        return None
    return sum(record.counts[1:]) / (len(record.chunks) - 1)


def end_to_end(record: Record) -> float | None:
    """The time from sending the request to the last token of a complete answer."""
    return record.end if record.succeeded else None


def output_throughput(record: Record) -> float | None:
    """n / end-to-end time, in tokens per second."""
    if not record.succeeded or record.output_tokens is None or record.end < 1e-9:
        return None
    return record.output_tokens / record.end


def llmperf_inter_token_latency(record: Record) -> float | None:
    """llmperf's "inter-token latency", as published: t_{m-1} / (m + 1).

    It takes events for tokens, the role's event included (llmperf @f1d6bed,
    ``openai_chat_completions_client.py``). So it is wrong where a chunk carries several tokens.
    """
    return record.chunks[-1][0] / (len(record.chunks) + 1) if record.chunks else None


def request_time(records: Iterable[Record]) -> float:
    """The seconds in flight of all requests, failed ones included, because their time is paid for.

    Answers whose tokens nobody knows are left out, as they are from tokens and answers.
    """
    return math.fsum(record.end for record in records if not record.uncounted)


def served_tokens(records: Iterable[Record]) -> int:
    return sum(record.output_tokens or 0 for record in records if record.succeeded)


def answers(records: Iterable[Record]) -> int:
    return sum(record.succeeded and not record.uncounted for record in records)


def in_flight(records: Sequence[Record]) -> float | None:
    """The mean number of requests in flight, while there was any."""
    occupied = occupied_time(records)
    return math.fsum(record.end for record in records) / occupied if occupied else None


def tokens_per_second(records: Sequence[Record], concurrency: int | None) -> float | None:
    """The speed of all requests together: served tokens / (request time / concurrency).

    By Little's law (Operations Research 9, 1961) it is what a load gets while ``concurrency``
    requests are in flight. Empty slots at the end of a turn do not count. USD a second, divided by
    it, is USD a token. Where ``concurrency`` is None, it is the mean number of requests in flight
    while there was any.
    """
    tokens, time = served_tokens(records), request_time(records)
    requests = concurrency or in_flight(records) or 0
    return requests * tokens / time if time > 0 and tokens > 0 else None


def open_loop_time(records: Sequence[Record], rate: float) -> float:
    """The time, in seconds, that ``records`` of an open loop take at ``rate`` requests a second.

    It is n / ``rate``, the mean time in which n requests come, plus the time from the last sending
    to the end of the last answer. n leaves out answers whose tokens nobody knows.
    """
    if not records:
        return 0.0
    ended = max(record.sent + record.end for record in records)
    requests = sum(not record.uncounted for record in records)
    return requests / rate + (ended - max(record.sent for record in records))


def occupied_time(records: Iterable[Record]) -> float:
    """The time, in seconds, in which any request was in flight."""
    time, until = 0.0, float("-inf")
    for start, end in sorted((record.sent, record.sent + record.end) for record in records):
        time += max(0.0, end - max(start, until))
        until = max(until, end)
    return time


def _single(measure: Callable[[Record], float | None]) -> Callable[[Record], Iterable[float]]:
    def values(record: Record) -> Iterable[float]:
        value = measure(record)
        return () if value is None else (value,)

    return values


TIME_PER_OUTPUT_TOKEN: Final = Metric(
    name="TimePerOutputToken",
    unit="Seconds",
    title="Time per output token",
    short="TPOT",
    definition="The time from the first chunk to the last, divided by the tokens after the first "
    "chunk: (tₘ₋₁ - t₀) / (n - c₀). Where the server does not count the tokens of each chunk, c₀ "
    "counts as 1.",
    values=_single(time_per_output_token),
    printed="ms",
    percentiles=("p50", "p90"),
)
TTFT: Final = Metric(
    name="TTFT",
    unit="Seconds",
    title="Time to first token",
    short="TTFT",
    definition="The time from the sending of a request to its first chunk with tokens: t₀ - tₛ.",
    values=_single(ttft),
    printed="ms",
    percentiles=("p50",),
)
INTER_CHUNK_LATENCY: Final = Metric(
    name="InterChunkLatency",
    unit="Seconds",
    title="Inter-chunk latency",
    short="Inter-chunk",
    definition="The time between two chunks: tᵢ - tᵢ₋₁. It is the time of one decoding step and "
    "the pace that a reader sees. With speculation one chunk can carry several tokens. Where a "
    "request offers tools, the server holds chunks back, and one can be several steps.",
    values=inter_chunk_latencies,
    printed="ms",
)
END_TO_END_LATENCY: Final = Metric(
    name="EndToEndLatency",
    unit="Seconds",
    title="End-to-end latency",
    short="E2E",
    definition="The time from the sending of a request to the last token of its answer.",
    values=_single(end_to_end),
    printed="s",
    percentiles=("p50",),
)
REQUEST_OUTPUT_THROUGHPUT: Final = Metric(
    name="RequestOutputThroughput",
    unit="Count/Second",
    title="Output tokens per second of a request",
    short="Tokens/s of a request",
    definition="Output tokens divided by the end-to-end latency.",
    values=_single(output_throughput),
)
TOKENS_PER_STEP: Final = Metric(
    name="TokensPerStep",
    unit="Count",
    title="Tokens per decoding step",
    short="Tokens per step",
    definition="Tokens after the first chunk, divided by the chunks after the first: "
    "(n - c₀) / (m - 1). One less is the number of drafts accepted in a step. It is defined only "
    "where the server counts the tokens of each chunk and the request offers no tools: there, a "
    "chunk is not a step.",
    values=_single(tokens_per_step),
)
INPUT_TOKENS: Final = Metric(
    name="InputTokens",
    unit="Count",
    title="Input tokens",
    short="Input tokens",
    definition="Tokens of the prompt, as the server counts them.",
    values=_single(lambda record: record.prompt_tokens),
)

METRICS: tuple[Metric, ...] = (
    TIME_PER_OUTPUT_TOKEN,
    TTFT,
    INTER_CHUNK_LATENCY,
    END_TO_END_LATENCY,
    Metric(
        name="InterTokenLatency",
        unit="Seconds",
        title="Inter-token latency as llmperf publishes it",
        short="llmperf ITL",
        definition="llmperf's own field: the whole time, TTFT included, divided by the number of "
        "events. It is close to TPOT only where every chunk carries one token.",
        values=_single(llmperf_inter_token_latency),
        printed="ms",
    ),
    REQUEST_OUTPUT_THROUGHPUT,
    TOKENS_PER_STEP,
    INPUT_TOKENS,
    Metric(
        name="OutputTokens",
        unit="Count",
        title="Output tokens",
        short="Output tokens",
        definition="Tokens of the answer, as the server counts them.",
        values=_single(lambda record: record.output_tokens),
    ),
)
"""In the order of display. A test adds an entry for a moment, so read it when it is used."""

REQUEST_TIME: Final = Total(name="RequestTime", unit="Seconds", value=request_time)
SERVED_TOKENS: Final = Total(name="ServedTokens", unit="Count", value=served_tokens)

TOTALS: Final = (REQUEST_TIME, SERVED_TOKENS)
"""Totals over requests, of which throughput and cost are made."""
