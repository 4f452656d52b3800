"""What a golden endpoint sent, and the ``/metrics`` page of either engine of vLLM for that.

It has the series that the benchmark reads and a few that a user looks for; a histogram has its last
bucket only. Names, labels and what each counts are vLLM's: V0's at commit b6553be1b,
0.9.1 (``vllm/engine/metrics.py``, and ``LLMEngine._get_stats`` in ``vllm/engine/llm_engine.py``),
V1's of 0.12 and later (``vllm/v1/metrics/loggers.py``, ``vllm/v1/metrics/stats.py``,
``vllm/v1/spec_decode/metrics.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from experiment.runtimes import Engine
from rehearsal.golden.answers import tokens_of


@dataclass
class Sent:
    """A golden endpoint's own record of a request, against which a measurement is checked.

    Times are of the monotonic clock, which all processes of a machine share.
    """

    id: str
    received: float
    prompt: str
    chunks: list[tuple[float, int]] = field(default_factory=list)
    """Time and tokens of each step, the prefill first. For an answer that is sent in one piece, the
    times at which its steps were due."""
    beyond: int = 0
    """Tokens that its last step yielded after the answer's last."""
    whole: bool = False
    """Whether it was served to its end."""
    finish: str = "length"
    """Why the answer ends, as the server says it."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return tokens_of(self.prompt)

    @property
    def tokens(self) -> int:
        """Tokens sent so far."""
        return sum(count for _, count in self.chunks)

    @property
    def ttft(self) -> float:
        """Seconds from the arrival of the request to its first token."""
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
    """The page after the requests ``sent``, while ``running`` are still served, others waiting.

    ``drafts`` is the number of draft tokens that a step verifies, as V1 counts them. It is 0 where
    the runtime counts none: V1 with NxDI, and V0 on Neuron.
    """
    v0, complete = engine is Engine.V0, [request for request in sent if request.whole]
    labels = {"model_name": model} | ({} if v0 else {"engine": "0"})
    # To the engine, a call of a tool has stopped like any answer that ended itself.
    reasons = ["length" if request.finish == "length" else "stop" for request in complete]
    singles = {
        ("gauge", "num_requests_running"): running,
        ("gauge", "num_requests_waiting"): waiting,
        ("counter", "prompt_tokens_total"): sum(s.prompt_tokens for s in sent if s.chunks),
        # V0 counts what its scheduler scheduled: one token a step, however many the step yields.
        ("counter", "generation_tokens_total"): sum(
            len(s.chunks) if v0 else s.tokens for s in sent
        ),
    }
    histograms: dict[str, list[float]] = {
        "time_per_output_token_seconds" if v0 else "inter_token_latency_seconds": _gaps(sent),
        "request_generation_tokens": [request.tokens for request in complete],
    }
    if not v0:
        times = [_mean_time(request) for request in complete]
        histograms["request_time_per_output_token_seconds"] = times
    series = [
        line
        for (kind, name), value in singles.items()
        for line in _series(kind, name, labels, value)
    ]
    series += _by_label(
        "request_success_total",
        labels,
        "finished_reason",
        {reason: reasons.count(reason) for reason in dict.fromkeys(["length", *reasons])},
    )
    for name, values in histograms.items():
        if values or not v0:  # V0 shows a histogram only once it has a value
            series += _histogram(name, labels, values)
    if drafts and not v0:
        series += _drafts(labels, sent, drafts)
    return "\n".join(series) + "\n"


def _drafts(labels: Mapping[str, str], sent: Sequence[Sent], drafts: int) -> Iterator[str]:
    accepted = [count for request in sent for count in _accepted(request)]
    counts = {
        "drafts": len(accepted),
        "draft_tokens": drafts * len(accepted),
        "accepted_tokens": sum(accepted),
    }
    for name, count in counts.items():
        yield from _series("counter", f"spec_decode_num_{name}_total", labels, count)
    positions = {
        str(position): sum(count > position for count in accepted) for position in range(drafts)
    }
    name = "spec_decode_num_accepted_tokens_per_pos_total"
    yield from _by_label(name, labels, "position", positions)


def _accepted(request: Sent) -> list[int]:
    """Of each step. An answer that is cut at its length does not take back what was accepted:
    ``vllm/v1/core/sched/scheduler.py`` counts first and cuts then."""
    counts = [tokens - 1 for _, tokens in request.chunks[1:]]
    if counts:
        counts[-1] += request.beyond
    return counts


def _gaps(sent: Iterable[Sent]) -> list[float]:
    """Seconds between successive steps of each answer."""
    return [
        later - earlier for request in sent for (earlier, _), (later, _) in pairwise(request.chunks)
    ]


def _mean_time(request: Sent) -> float:
    """V1's mean: over all tokens but the first, and 0 for an answer of one token."""
    (first, _), (last, _) = request.chunks[0], request.chunks[-1]
    return (last - first) / max(1, request.tokens - 1)


def _series(kind: str, name: str, labels: Mapping[str, str], value: float) -> list[str]:
    return [f"# TYPE vllm:{name} {kind}", _sample(name, labels, value)]


def _by_label(
    name: str, labels: Mapping[str, str], label: str, values: Mapping[str, float]
) -> Iterator[str]:
    yield f"# TYPE vllm:{name} counter"
    for key, value in values.items():
        yield _sample(name, {**labels, label: key}, value)


def _histogram(name: str, labels: Mapping[str, str], values: Sequence[float]) -> Iterator[str]:
    yield f"# TYPE vllm:{name} histogram"
    yield _sample(f"{name}_bucket", {**labels, "le": "+Inf"}, len(values))
    yield _sample(f"{name}_count", labels, len(values))
    yield _sample(f"{name}_sum", labels, sum(values))


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{label}="{labels[label]}"' for label in sorted(labels))
    return f"vllm:{name}{{{pairs}}} {float(value)}"
