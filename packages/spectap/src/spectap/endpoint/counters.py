"""A server's own counters: vLLM's ``/metrics``, read before and after each load.

vLLM has two engines, V0 and V1, and ``vllm:generation_tokens_total`` means something else on each.
Tokens and steps are read where both count them alike; ``crosscheck`` infers from the figures what
that counter counts.

Source: vLLM 0.9.1, commit b6553be1b, which has both engines (``vllm/engine/llm_engine.py``,
``vllm/engine/metrics.py``; ``vllm/v1/metrics/stats.py``, ``vllm/v1/metrics/loggers.py``,
``vllm/v1/spec_decode/metrics.py``), and the same files of V1 in later versions.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from spectap import journal
from spectap.endpoint.health import content, root

COUNTERS: Final = "counters.jsonl"

_ONE_TRY: Final = aiohttp.ClientTimeout(total=10)

POLL_SECONDS: Final = 0.1
"""Between two looks at the counters: a server may count a step just after it has sent it."""
_POLLS: Final = 20

_GENERATED: Final = "vllm:generation_tokens_total"
_FINISHED: Final = "vllm:request_generation_tokens"
# One thing under two names: the second came with V1's 0.11 and replaced the first in 0.12.
_GAPS: Final = ("vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds")
_DRAFTS: Final = "vllm:spec_decode_num_"
_POSITION: Final = f"{_DRAFTS}accepted_tokens_per_pos_total"
_IN_FLIGHT: Final = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@dataclass(frozen=True)
class Counters:
    """A server's counts since its start, or between two; on Neuron, V0 counts no drafts."""

    generation_tokens: int
    """Tokens on V1. On V0 one for each sequence and step, prefills included, which are tokens
    without speculation and steps with it (``LLMEngine._get_stats``). With prefix caching, which V0
    has off by default, cached prefills are missing."""
    drafts: int
    """Steps that had drafts to verify."""
    draft_tokens: int
    """All drafts in those steps."""
    accepted: int
    """Drafts that the target agreed with, before the answer was cut at its length."""
    per_position: tuple[int, ...]
    """For the n-th draft of a step: in how many steps it was accepted."""
    finished_tokens: int | None = None
    """Tokens of the ``finished`` answers, counted when an answer ends, together with everything
    else of its last step. None where the server does not count it."""
    finished: int = 0
    """Answers that have ended."""
    gaps: int | None = None
    """Times between two outputs of an answer: one for each step after the prefill. None where the
    server does not count it."""

    @property
    def tokens(self) -> int:
        """Tokens of the answers; ``generation_tokens`` where the server counts nothing better."""
        return self.generation_tokens if self.finished_tokens is None else self.finished_tokens

    def since(self, before: Counters) -> Counters:
        """The counts after ``before``."""
        pairs = zip_longest(self.per_position, before.per_position, fillvalue=0)
        return Counters(
            generation_tokens=self.generation_tokens - before.generation_tokens,
            drafts=self.drafts - before.drafts,
            draft_tokens=self.draft_tokens - before.draft_tokens,
            accepted=self.accepted - before.accepted,
            per_position=tuple(count - earlier for count, earlier in pairs),
            finished_tokens=_since(self.finished_tokens, before.finished_tokens),
            finished=self.finished - before.finished,
            gaps=_since(self.gaps, before.gaps),
        )


def _since(count: int | None, before: int | None) -> int | None:
    # V0 shows a histogram from its first value on.
    return None if count is None else count - (before or 0)


@dataclass(frozen=True)
class Count:
    """The counts of a server while the ``requests`` of the ledger were its only ones."""

    case: str
    round: int
    variant: str
    requests: tuple[str, ...]
    counters: Counters
    load: str = ""
    """The name of the load point, as in the ledger."""


class Page(NamedTuple):
    """A page of ``/metrics``."""

    counters: Counters
    in_flight: float
    """Requests that run or wait."""


def parse(text: str) -> Page | None:
    """Parses a page of ``/metrics``; None where it is not vLLM's."""
    totals: dict[str, float] = {}
    positions: dict[int, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
                if sample.name == _POSITION:
                    position = int(sample.labels["position"])
                    positions[position] = positions.get(position, 0.0) + sample.value
    except (ValueError, KeyError):
        return None
    if _GENERATED not in totals:
        return None
    finished = totals.get(f"{_FINISHED}_sum")
    # Not added up: 0.11 exports the same under both names.
    gaps = [totals[f"{name}_count"] for name in _GAPS if f"{name}_count" in totals]
    counters = Counters(
        generation_tokens=int(totals[_GENERATED]),
        drafts=int(totals.get(f"{_DRAFTS}drafts_total", 0)),
        draft_tokens=int(totals.get(f"{_DRAFTS}draft_tokens_total", 0)),
        accepted=int(totals.get(f"{_DRAFTS}accepted_tokens_total", 0)),
        per_position=tuple(int(positions[position]) for position in sorted(positions)),
        finished_tokens=None if finished is None else int(finished),
        finished=int(totals.get(f"{_FINISHED}_count", 0)),
        gaps=int(max(gaps)) if gaps else None,
    )
    return Page(counters, in_flight=sum(totals.get(name, 0.0) for name in _IN_FLIGHT))


async def scrape(endpoint: str) -> Counters | None:
    """The counters of the server at ``endpoint``, once they rest; None where it has none.

    They rest when no request runs or waits, and the page is the same a poll later: it may be
    written while the last step is being counted. After 20 polls they are taken as they are: V1
    shows aborted requests as running until it gets another (vllm-project/vllm issue 22545).
    ``endpoint`` is the base URL, ``/v1`` included.
    """
    page: Page | None = None
    async with aiohttp.ClientSession(timeout=_ONE_TRY) as session:
        for _ in range(_POLLS):
            before, page = page, None
            with contextlib.suppress(TimeoutError, aiohttp.ClientError, UnicodeDecodeError):
                async with session.get(f"{root(endpoint)}/metrics") as response:
                    if response.status == 200:
                        page = parse((await content(response)).decode())
            if page is None:
                return None
            if not page.in_flight and page == before:
                break
            await asyncio.sleep(POLL_SECONDS)
    return None if page is None else page.counters


def read(path: Path) -> tuple[Count, ...]:
    """All counts in the file; none if there is no file. Raises OSError and JournalError."""
    return tuple(journal.read(path, Count))
