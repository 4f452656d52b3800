"""Counts of a golden endpoint, and the ``/metrics`` page of either engine of vLLM for them.

It has the series that the benchmark reads, untyped, of histograms without buckets. Names, labels
and what each counts are vLLM's: V0's at commit b6553be1b, 0.9.1 (``vllm/engine/metrics.py``, and
``LLMEngine._get_stats`` in ``vllm/engine/llm_engine.py``), V1's of 0.12 and later
(``vllm/v1/metrics/loggers.py``, ``vllm/v1/metrics/stats.py``, ``vllm/v1/spec_decode/metrics.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spectap.names import Engine


@dataclass
class Sent:
    """A golden endpoint's own record of a request, to check a measurement against.

    Times are of the monotonic clock, which all processes of a machine share.
    """

    id: str
    received: float
    prompt: str
    chunks: list[tuple[float, int]] = field(default_factory=list)
    """Time and tokens of each step, the prefill first. For an answer in one piece, the times at
    which its steps were due."""
    beyond: int = 0
    """Tokens of its last step beyond the answer's end."""
    whole: bool = False
    """Whether it was served to its end."""

    @property
    def tokens(self) -> int:
        return sum(count for _, count in self.chunks)

    @property
    def ttft(self) -> float:
        return self.chunks[0][0] - self.received

    @property
    def time_per_output_token(self) -> float:
        """Seconds per token after the first chunk, from the times at which chunks were sent."""
        after_first = self.tokens - self.chunks[0][1]
        return (self.chunks[-1][0] - self.chunks[0][0]) / after_first


def page(
    engine: Engine,
    model: str,
    sent: Sequence[Sent],
    running: int = 0,
    waiting: int = 0,
    drafts: int = 0,
) -> str:
    """The ``/metrics`` page after the requests ``sent``, with others ``running`` and ``waiting``.

    ``drafts`` is the number of draft tokens that a step verifies, as V1 counts them. It is 0 for
    runtimes that count none: V1 with NxDI, and V0 on Neuron.
    """
    v0, complete = engine is Engine.V0, [request for request in sent if request.whole]
    common = {"model_name": model} if v0 else {"engine": "0", "model_name": model}
    lines: list[str] = []

    def add(name: str, value: float, **labels: str) -> None:
        pairs = ",".join(f'{key}="{text}"' for key, text in (common | labels).items())
        lines.append(f"vllm:{name}{{{pairs}}} {float(value)}\n")

    add("num_requests_running", running)
    add("num_requests_waiting", waiting)
    # V0 counts what its scheduler scheduled: one token a step, however many the step yields.
    generated = sum(len(s.chunks) if v0 else s.tokens for s in sent)
    add("generation_tokens_total", generated)
    # V0 shows a histogram only once it has a value.
    if (gaps := sum(len(s.chunks[1:]) for s in sent)) or not v0:
        name = "time_per_output_token_seconds" if v0 else "inter_token_latency_seconds"
        add(f"{name}_count", gaps)
    if complete or not v0:
        add("request_generation_tokens_count", len(complete))
        add("request_generation_tokens_sum", sum(request.tokens for request in complete))
    if drafts and not v0:
        accepted = [count for request in sent for count in _accepted(request)]
        add("spec_decode_num_drafts_total", len(accepted))
        add("spec_decode_num_draft_tokens_total", drafts * len(accepted))
        add("spec_decode_num_accepted_tokens_total", sum(accepted))
        for position in range(drafts):
            steps = sum(count > position for count in accepted)
            add("spec_decode_num_accepted_tokens_per_pos_total", steps, position=str(position))
    return "".join(lines)


def _accepted(request: Sent) -> list[int]:
    """The accepted drafts of each step, also those that the answer's end cuts off:
    ``vllm/v1/core/sched/scheduler.py`` counts first and cuts then."""
    counts = [tokens - 1 for _, tokens in request.chunks[1:]]
    if counts:
        counts[-1] += request.beyond
    return counts
