"""Warms the servers up: their first requests take many times as long as others."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from spectap.endpoint import health
from spectap.errors import RunError
from spectap.inputs.config import Config
from spectap.protocol.text import PATHS
from spectap.records.record import Record

_UNREADY: Final = (200, 404, 429, *range(500, 600))
"""Statuses of a front end whose workers are not there yet although its ``/health`` says so
(ai-dynamo/dynamo#2296); with 200, the stream says what is wrong."""

_SEND_USAGE: Final = (
    'its tokens cannot be counted. Make it honour stream_options {"include_usage": true}, which is '
    "sent with each request, or send usage always (vLLM: --enable-force-include-usage; LiteLLM: "
    "general_settings: always_include_stream_usage: true)"
)


async def warm_up(
    config: Config,
    wave: Callable[[], Awaitable[tuple[Sequence[Record], str | None]]],
    patience_seconds: float,
    say: Callable[[str], None],
) -> Sequence[Record]:
    """Sends one wave, and repeats it while a server that says it is ready answers none of it.

    Returns the records. Raises RunError where a server refuses, or is not ready in time.
    """
    say("warming up")
    deadline, before = time.monotonic() + patience_seconds, None
    while True:
        records, failure = await wave()
        if failure is not None and failure != before:
            say(f"warm-up: {failure}")
        refusals = _refusals(records)
        if not refusals:
            return records
        if time.monotonic() >= deadline or any(r.status not in _UNREADY for r in refusals.values()):
            path = PATHS[config.load.endpoint_type]
            raise RunError(
                "\n".join(
                    f"{name}: no request to {url}/{path} succeeded: {_reason(refusals[name])}"
                    for name, url in config.endpoints.items()
                    if name in refusals
                )
            )
        before = failure
        await asyncio.sleep(health.POLL_SECONDS)


def check_usage(config: Config, records: Sequence[Record]) -> None:
    """Raises RunError where a server sends no usage: without tokens there is nothing to compare."""
    uncounted = []
    for name, url in config.endpoints.items():
        counts = [r.output_tokens for r in records if r.variant == name and r.succeeded]
        if counts and set(counts) == {None}:
            uncounted.append(f"{name} ({url}) streams answers without usage: {_SEND_USAGE}")
    if uncounted:
        raise RunError("\n".join(uncounted))


def _refusals(records: Sequence[Record]) -> dict[str, Record]:
    """The last answer of each variant that answers and never answers well."""
    refusals = {r.variant: r for r in records if r.status is not None and not r.stalled}
    answered = {r.variant for r in records if r.succeeded}
    return {name: refusal for name, refusal in refusals.items() if name not in answered}


def _reason(refusal: Record) -> str:
    error = refusal.error or ""
    # Of a base model, vLLM says that it has no chat template.
    wrong = refusal.status in (404, 405) or "chat template" in error
    return f"{error}; does it serve that API? --endpoint-type names another" if wrong else error
