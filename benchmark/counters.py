"""What a server counts itself: vLLM's ``/metrics``, read before and after each load.

The names are vLLM's (``vllm/v1/metrics/loggers.py``, ``vllm/v1/spec_decode/metrics.py``).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter, ValidationError

COUNTERS: Final = "counters.jsonl"

_ONE_TRY: Final = aiohttp.ClientTimeout(total=10)

# A server counts a step just after it has sent it.
_POLL_SECONDS: Final = 0.1
_POLLS: Final = 20

_DRAFTS: Final = "vllm:spec_decode_num_"
_POSITION: Final = f"{_DRAFTS}accepted_tokens_per_pos_total"
_TOKEN_TIME: Final = "vllm:request_time_per_output_token_seconds"


@dataclass(frozen=True)
class Counters:
    """Since the server's start, or between two moments.

    ``drafts`` are steps that had drafts to verify, ``draft_tokens`` all drafts in them and
    ``accepted`` those that the target agreed with, before the answer was cut at its length;
    ``per_position``: in how many steps the n-th draft was accepted. ``token_seconds`` is the sum of
    ``timed`` requests' mean times per output token.
    """

    generation_tokens: int
    drafts: int
    draft_tokens: int
    accepted: int
    per_position: tuple[int, ...]
    token_seconds: float
    timed: int

    def since(self, before: Counters) -> Counters:
        """What was counted after ``before``."""
        missing = len(self.per_position) - len(before.per_position)
        earlier = (*before.per_position, *(0,) * missing)
        return Counters(
            generation_tokens=self.generation_tokens - before.generation_tokens,
            drafts=self.drafts - before.drafts,
            draft_tokens=self.draft_tokens - before.draft_tokens,
            accepted=self.accepted - before.accepted,
            per_position=tuple(
                now - then for now, then in zip(self.per_position, earlier, strict=False)
            ),
            token_seconds=self.token_seconds - before.token_seconds,
            timed=self.timed - before.timed,
        )


@dataclass(frozen=True)
class Count:
    """What one server counted while the ``requests`` of the ledger were its only ones."""

    case: str
    round: int
    variant: str
    requests: tuple[str, ...]
    counters: Counters


_COUNT: Final = TypeAdapter(Count)


def parse(text: str) -> Counters | None:
    """The counters on a page of ``/metrics``; None where it is not vLLM's."""
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
    if "vllm:generation_tokens_total" not in totals:
        return None
    return Counters(
        generation_tokens=int(totals["vllm:generation_tokens_total"]),
        drafts=int(totals.get(f"{_DRAFTS}drafts_total", 0)),
        draft_tokens=int(totals.get(f"{_DRAFTS}draft_tokens_total", 0)),
        accepted=int(totals.get(f"{_DRAFTS}accepted_tokens_total", 0)),
        per_position=tuple(int(positions[position]) for position in sorted(positions)),
        token_seconds=totals.get(f"{_TOKEN_TIME}_sum", 0.0),
        timed=int(totals.get(f"{_TOKEN_TIME}_count", 0)),
    )


async def scrape(endpoint: str) -> Counters | None:
    """The counters of the server at ``endpoint``, once they rest; None where it has none.

    ``endpoint`` is its base URL, ``/v1`` included.
    """
    parts = urlsplit(endpoint)
    url = f"{parts.scheme}://{parts.netloc}/metrics"
    found: Counters | None = None
    async with aiohttp.ClientSession(timeout=_ONE_TRY) as session:
        for _ in range(_POLLS):
            before, found = found, await _page(session, url)
            if found is None or found == before:
                return found
            await asyncio.sleep(_POLL_SECONDS)
    return found


async def _page(session: aiohttp.ClientSession, url: str) -> Counters | None:
    try:
        async with session.get(url) as response:
            return parse(await response.text()) if response.status == 200 else None
    except (aiohttp.ClientError, asyncio.TimeoutError, UnicodeDecodeError):
        return None


def read(path: Path) -> tuple[Count, ...]:
    """All lines of the file; none if there is no file. A torn last line counts as not written.

    Raises ValueError.
    """
    if not path.exists():
        return ()
    try:
        return tuple(map(_COUNT.validate_json, path.read_bytes().split(b"\n")[:-1]))
    except ValidationError:
        raise ValueError(f"{path}: a line is not a count of this benchmark") from None
