"""Names that the benchmark writes and the dashboards, alarms and policies read.

Defined here once: the benchmark runs alone in its image, so it cannot import them from
anywhere else, while everything else can import them from here. The metric names TTFT to
OutputTokens, the namespace and the two dimensions are the published sample's
(aws-neuron-eks-samples, ``speculative_decoding_trn2_vllm/qwen-llmperf-pod.yaml``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAMESPACE: Final = "Qwen/LLMPerf"

EXPERIMENT_DIMENSION: Final = "Experiment"
VARIANT_DIMENSION: Final = "Variant"
TEST_CASE_DIMENSION: Final = "TestCase"

BASE: Final = "Base"
SPECULATIVE: Final = "SD"
VARIANTS: Final = (BASE, SPECULATIVE)


@dataclass(frozen=True)
class Metric:
    """One CloudWatch metric; ``unit`` is a CloudWatch ``StandardUnit``."""

    name: str
    unit: str
    title: str


TTFT: Final = Metric("TTFT", "Seconds", "Time to first token")
INTER_TOKEN_LATENCY: Final = Metric(
    "InterTokenLatency", "Seconds", "Inter-token latency as llmperf publishes it"
)
END_TO_END_LATENCY: Final = Metric("EndToEndLatency", "Seconds", "End-to-end latency")
REQUEST_OUTPUT_THROUGHPUT: Final = Metric(
    "RequestOutputThroughput", "Count/Second", "Output tokens per second of a request"
)
INPUT_TOKENS: Final = Metric("InputTokens", "Count", "Input tokens")
OUTPUT_TOKENS: Final = Metric("OutputTokens", "Count", "Output tokens")
TIME_PER_OUTPUT_TOKEN: Final = Metric("TimePerOutputToken", "Seconds", "Time per output token")
INTER_CHUNK_LATENCY: Final = Metric("InterChunkLatency", "Seconds", "Inter-chunk latency")
TOKENS_PER_STEP: Final = Metric("TokensPerStep", "Count", "Tokens per decoding step")

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

WARM_UP: Final = 0
"""The round whose requests are left out of every figure."""

# A run's folder.
CONFIG: Final = "config.json"
LEDGER: Final = "ledger.jsonl"
LLMPERF: Final = "llmperf"

RESULTS_PREFIX: Final = "results/"


def results_key(run_id: str, name: str) -> str:
    """The object key of the file ``name`` of one run: ``results/<run id>/<name>``."""
    return f"{RESULTS_PREFIX}{run_id}/{name}"
