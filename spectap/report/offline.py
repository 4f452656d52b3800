"""What a report says where the variants were jobs of inference_demo: there was no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from spectap import metrics
from spectap.config import Config, Cost
from spectap.metrics import Metric

HOW: Final = "one prompt at a time"
DRIVER: Final = "jobs of inference_demo"

SOURCES: Final = (
    (
        "Time to first token",
        "The call of the context encoding model for one prompt, from its start to its end. Of "
        "vanilla it is the target's; the draft's own prefill is in the first step.",
    ),
    (
        "Time of a step, tokens a step",
        "Each call of the generation model: when it ended, and the first position that it was "
        "given. From one call to the next that position moves on by the tokens of the step.",
    ),
    (
        "Time per output token, end-to-end latency",
        "The two above, added up. Reading the prompt and the chat template come before the first "
        "call, and are in no figure.",
    ),
    (
        "Drafts accepted, by position",
        "The tokens of a step, less the one that the target makes itself.",
    ),
    (
        "Tokens a second, cost",
        "The tokens of the answers by their end-to-end latencies. What passes between two prompts "
        "is in neither.",
    ),
)
"""Figures, and what of NxDI they are observed in: hooks on the calls that its own loops make
(neuronx-distributed-inference v0.6.10598, ``utils/hf_adapter.py``)."""

_DEFINITIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    metrics.TIME_PER_OUTPUT_TOKEN.name: {
        "definition": "The time from the end of the prefill to the end of the last step, divided "
        "by the tokens of the steps: (tₘ₋₁ - t₀) / (n - c₀).",
    },
    metrics.TTFT.name: {
        "definition": "The prefill of one prompt: from the start of the first call of the model to "
        "its end, t₀ - tₛ.",
    },
    metrics.INTER_CHUNK_LATENCY.name: {
        "title": metrics.STEP_TITLE,
        "short": "Step",
        "definition": "The time from the end of a call to the end of the next: tᵢ - tᵢ₋₁. With a "
        "draft model a step is each of its calls, one call of the target, and what the host does "
        "between them.",
    },
    metrics.END_TO_END_LATENCY.name: {
        "definition": "The time from the start of the prefill to the end of the last step.",
    },
    metrics.REQUEST_OUTPUT_THROUGHPUT.name: {
        "title": "Output tokens per second of a prompt",
        "short": "Tokens/s of a prompt",
    },
    metrics.TOKENS_PER_STEP.name: {
        "definition": "Tokens after the prefill, divided by the steps: (n - c₀) / (m - 1). One "
        "less is the number of drafts accepted in a step.",
    },
    metrics.INPUT_TOKENS.name: {
        "definition": "Tokens of the prompt by the target's tokenizer, with what the chat template "
        "adds.",
    },
    metrics.OUTPUT_TOKENS.name: {
        "definition": "Tokens of the answer, the one that ends it included.",
    },
}


def metrics_of(config: Config) -> tuple[Metric, ...]:
    """The catalogue in the words of what was measured; of jobs, without what a client publishes."""
    if not config.offline:
        return metrics.METRICS
    return tuple(
        replace(metric, **_DEFINITIONS.get(metric.name, {}))
        for metric in metrics.measured(offline=True)
    )


def idle(cost: Cost) -> str:
    """What the share of a node leaves out: nothing runs beside a job."""
    if cost.share == 1:
        return ""
    return (
        "The rest of the node idles beside a job, and is paid for: the bill is "
        f"{1 / cost.share:.3g} times these costs."
    )


def notes(config: Config) -> Iterator[str]:
    """What to know of a run of jobs before reading it."""
    if not config.offline:
        return
    modes = {variant.mode for variant in config.variants}
    but = " but those of inference_demo's own report" if "vanilla" in modes else ""
    yield (
        f"No server and no tap were there. All figures{but} are observed in NxDI's own calls, on "
        f"this experiment's prompts, {HOW}: compare them with each other, and with no service's."
    )
    if "vanilla" in modes:
        yield (
            "vanilla: the first step of each answer verifies its drafts one position too far, so "
            "as a rule it yields one token. That is how NxDI does it, and it is in the figures."
        )
    if "medusa" in modes:
        yield (
            "medusa: NxDI does not keep what it accepted in its place in the cache, so that later "
            "steps can attend to rejected drafts. Its answers, and what is accepted, can differ "
            "from what the same heads would do without that. NxDI also lays out the weights of its "
            "baseline's steps for speed, and not those of Medusa's."
        )
