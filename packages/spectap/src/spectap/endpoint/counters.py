"""A server's own counters: its ``/metrics``, read before and after each load.

vLLM has two engines, V0 and V1, and ``vllm:generation_tokens_total`` means something else on each.
Tokens and steps are read where both count them alike; ``crosscheck`` infers from the figures what
that counter counts.

Sources: vLLM 0.9.1, commit b6553be1b, which has both engines (``vllm/engine/llm_engine.py``,
``vllm/engine/metrics.py``; ``vllm/v1/metrics/stats.py``, ``vllm/v1/metrics/loggers.py``,
``vllm/v1/spec_decode/metrics.py``), and the same files of V1 up to 0.32; SGLang's
``srt/metrics/collector.py``, whose gaps count tokens and are not read; llama.cpp's
server. TensorRT-LLM counts no tokens. Exporters rewrite the colon to an underscore.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from spectap.endpoint.health import content, open_session, root
from spectap.records import journal

COUNTERS: Final = "counters.jsonl"

_ONE_TRY_SECONDS: Final = 10

POLL_SECONDS: Final = 0.1
"""Between two looks at the counters: a server may count a step just after it has sent it."""
_POLLS: Final = 20

_MOST: Final = 2.0**53
"""The largest count that a float holds exactly."""
_MODEL: Final = "model_name"
_BEGAN: Final = ("process_start_time_seconds", "_created")
"""Suffixes of series whose values tell one process from another."""
_IN_FLIGHT: Final = (
    *("vllm_num_requests_running", "vllm_num_requests_waiting"),
    *("sglang_num_running_reqs", "sglang_num_queue_reqs"),
    *("llamacpp_requests_processing", "llamacpp_requests_deferred"),
)
_POSITION: Final = "vllm_spec_decode_num_accepted_tokens_per_pos_total"
FIELDS: Final = {
    "vllm_generation_tokens_total": "generation_tokens",
    "vllm_request_generation_tokens_sum": "finished_tokens",
    "vllm_request_generation_tokens_count": "finished",
    # One thing under two names: the second came with V1's 0.11 and replaced the first in 0.12.
    "vllm_time_per_output_token_seconds_count": "gaps",
    "vllm_inter_token_latency_seconds_count": "gaps",
    "vllm_spec_decode_num_drafts_total": "drafts",
    "vllm_spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm_spec_decode_num_accepted_tokens_total": "accepted",
    "vllm_gpu_prefix_cache_hits_total": "cache_hits",  # of V1 before 0.10
    "vllm_gpu_prefix_cache_queries_total": "cache_queries",
    "vllm_prefix_cache_hits_total": "cache_hits",
    "vllm_prefix_cache_queries_total": "cache_queries",
    "sglang_generation_tokens_total": "generation_tokens",
    "sglang_num_requests_total": "finished",
    "sglang_cached_tokens_total": "cache_hits",
    "sglang_prompt_tokens_total": "cache_queries",
    "llamacpp_tokens_predicted_total": "generation_tokens",
}
"""The field of ``Counters`` for each counter. Exporters replace an engine's colon."""


class Obstacle(StrEnum):
    """A reason why two readings of a server's counters do not give the counts in between."""

    PROCESS = "another process"
    FELL = "fell"
    NUMBER = "not a count"
    OTHERS = "other answers"


@dataclass(frozen=True)
class Counters:
    """A server's counts since its start, or between two readings. V0 on Neuron counts no drafts."""

    generation_tokens: int
    """On V1, tokens. On V0, one for each sequence in each step (``LLMEngine._get_stats``): that is
    tokens without speculation, and steps with it. With prefix caching, which V0 has off by default,
    cached prefills are missing."""
    drafts: int = 0
    """Steps that had drafts to verify."""
    draft_tokens: int = 0
    """All drafts in those steps."""
    accepted: int = 0
    """Drafts that the target agreed with, before the answer was cut at its length."""
    per_position: tuple[int, ...] = ()
    """The number of steps in which the n-th draft was accepted, for each n."""
    finished_tokens: int | None = None
    """Tokens of the ``finished`` answers, counted when an answer ends, with all of its last step.
    None where the server does not count them."""
    finished: int = 0
    """Answers that have ended."""
    gaps: int | None = None
    """The number of gaps between two outputs of an answer: one for each step after the prefill.
    None where the server does not count them."""
    cache_hits: int | None = None
    """Prompt tokens that the prefix cache had; None where the server does not count them."""
    cache_queries: int | None = None
    """Prompt tokens that were looked up in the cache, or all prompt tokens."""

    @property
    def tokens(self) -> int:
        """Tokens of finished answers; ``generation_tokens`` where there is no better count."""
        return self.generation_tokens if self.finished_tokens is None else self.finished_tokens


@dataclass(frozen=True)
class Count:
    """A server's counts while these ``requests`` of the ledger were its only ones."""

    case: str
    round: int
    variant: str
    requests: tuple[str, ...]
    counters: Counters
    load: str = ""
    """The name of the load point, as in the ledger."""
    obstacle: Obstacle | None = None
    """The reason why the counts are not of these requests; None without one."""


Series = tuple[str, frozenset[tuple[str, str]]]
"""A series: its name, with the colon as an underscore, and its labels."""


class Page(NamedTuple):
    """One page of ``/metrics``, or several of them joined."""

    series: Mapping[Series, float]
    """The counters and their start times; -1 for a value that is no count."""
    in_flight: float
    """Requests that run or wait."""
    obstacle: Obstacle | None = None
    """The obstacle between joined pages, if there is one."""

    def since(self, before: Page) -> Counters:
        """The counts since ``before``, summed over engines and replicas."""
        totals, positions = Counter[str](), Counter[str]()
        for key, value in self.series.items():
            # V0 shows a histogram from its first value on.
            count = int(value - before.series.get(key, 0))
            if key[0] == _POSITION:
                positions[dict(key[1]).get("position", "")] += count
            totals[key[0]] += count
        fields: dict[str, int] = {}
        for name, field in FIELDS.items():
            if name in totals:  # not added up: 0.11 exports the same under both names
                fields[field] = max(totals[name], fields.get(field, totals[name]))
        in_order = sorted(positions, key=lambda position: (len(position), position))
        return Counters(**fields, per_position=tuple(positions[each] for each in in_order))

    def obstacle_since(self, before: Page) -> Obstacle | None:
        """The reason why counts since ``before`` are not those in between; None without one."""
        if obstacle := self.obstacle or before.obstacle:
            return obstacle
        earlier = [(key, value, self.series.get(key, -1)) for key, value in before.series.items()]
        if any(now != value for (name, _), value, now in earlier if name.endswith(_BEGAN)):
            return Obstacle.PROCESS
        if min(*self.series.values(), *before.series.values()) < 0:
            return Obstacle.NUMBER
        return Obstacle.FELL if any(now < value for _, value, now in earlier) else None


def parse(text: str, model: str = "") -> Page | None:
    """Parses a page of ``/metrics``; None where no known engine counts tokens.

    If a series is labelled as of ``model``, those of other models are left out.
    """
    series: dict[Series, float] = {}
    in_flight = 0.0
    several = f'{_MODEL}="{model}"' in text
    try:
        for family in text_string_to_metric_families(text):
            for name, labels, value, *_ in family.samples:
                name = name.replace(":", "_")
                if several and labels.get(_MODEL, model) != model:
                    continue
                if name in FIELDS or name == _POSITION or name.endswith(_BEGAN):
                    # Not added up: a page may have a series under both forms of its name.
                    key = name, frozenset(labels.items())
                    series[key] = value if 0 <= value < _MOST else -1.0
                elif name in _IN_FLIGHT and value > 0:
                    in_flight += value
    except (ValueError, KeyError):
        return None
    counts = any(FIELDS.get(name) == "generation_tokens" for name, _ in series)
    return Page(series, in_flight) if counts else None


async def scrape(endpoint: str, model: str = "") -> Page | None:
    """Reads the counters of the server at ``endpoint`` once they are at rest; None without any.

    They are at rest when no request runs or waits and two pages in a row are equal: a page may be
    written while the last step is being counted. After 20 readings they are taken as they are,
    because V1 shows aborted requests as running until the next request (vllm-project/vllm issue
    22545). ``endpoint`` is the base URL, with ``/v1``.
    """
    url, page = f"{root(endpoint)}/metrics", None
    between: Obstacle | None = None
    async with open_session(_ONE_TRY_SECONDS) as session:
        for _ in range(_POLLS):
            before, page = page, None
            with contextlib.suppress(TimeoutError, aiohttp.ClientError, UnicodeDecodeError):
                async with session.get(url, allow_redirects=False) as response:
                    if response.status == 200:
                        page = parse((await content(response)).decode(), model)
            if page is None:
                return None
            if before is not None:
                between = between or page.obstacle_since(before)
            if not page.in_flight and page == before:
                break
            await asyncio.sleep(POLL_SECONDS)
    return None if page is None else page._replace(obstacle=between)


def read(path: Path) -> tuple[Count, ...]:
    """All counts in the file; empty without a file. Raises OSError and JournalError."""
    return tuple(journal.read(path, Count))
