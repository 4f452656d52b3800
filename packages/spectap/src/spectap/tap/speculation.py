"""The fields in which servers report the drafts of a single answer; an engine is one entry.

Servers send them on request: vLLM from 0.29 on with ``--per-request-spec-decode-metrics``,
TensorRT-LLM with ``per_request_spec_decode_stats``, SGLang where a request has
``return_meta_info``.
"""

from typing import Any, Final, NamedTuple

from spectap.protocol import limits
from spectap.records.record import Speculation


class Engine(NamedTuple):
    """The path to an engine's fields in an event or an answer, and their names."""

    path: tuple[str | int, ...]
    drafts: str
    accepted: str
    steps: str = ""
    """The field of steps; empty where the engine does not count them."""


ENGINES: Final = {
    # By vLLM's page on acceptance metrics, in the chunk of the usage.
    "vLLM": Engine(
        ("metrics", "speculative_decoding"),
        *("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps"),
    ),
    # With the reason of the end, by AIPerf's page on acceptance.
    "TensorRT-LLM": Engine(
        ("choices", 0, "speculative_decoding"),
        *("total_draft_tokens", "total_accepted_draft_tokens", "num_spec_steps"),
    ),
    # 0.5.15; counts no bonus token
    "SGLang": Engine(
        ("choices", 0, "meta_info"),
        *("spec_num_proposed_drafts", "spec_num_correct_drafts", "spec_verify_ct"),
    ),
    # By its server, where anything was drafted.
    "llama.cpp": Engine(("timings",), "draft_n", "draft_n_accepted"),
}


def read(*bodies: Any) -> Speculation | None:
    """The counts in the first of these bodies with plausible ones."""
    for body in bodies:
        for engine in ENGINES.values():
            fields = _at(body, engine.path)
            drafts, accepted = (limits.whole(_at(fields, (n,))) for n in engine[1:3])
            if drafts is not None and accepted is not None and accepted <= drafts:
                return Speculation(drafts, accepted, limits.whole(_at(fields, (engine.steps,))))
    return None


def _at(body: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        kind = list if isinstance(key, int) else dict
        if not isinstance(body, kind) or (kind is list and not body):
            return None
        body = body[0] if isinstance(body, list) else body.get(key)
    return body
