"""The built-in load driver: closed loop, with llmperf's arguments and result files.

It is used where llmperf is not installed: llmperf is not on PyPI and needs an older Python. It
keeps the same number of requests in flight, and writes the same fields by the same formulas with
the same faults: events are taken for tokens, and the "inter-token latency" includes the time to
first token. It differs in two ways. It has no tokenizer, so it estimates four characters a token.
And its prompts begin with its own instruction, or are those of ``--prompts``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmark.load import llmperf

NAME: Final = "closed-loop"

_CHARACTERS_PER_TOKEN: Final = 4
_READ_TIMEOUT: Final = 180.0  # seconds without a byte; llmperf's

_TRANSPORT_ERRORS: Final = (aiohttp.ClientError, asyncio.TimeoutError)
_MALFORMED: Final = (ValueError, KeyError, TypeError, AttributeError)  # an event of another shape

# Shakespeare, sonnet 18: stands in for the text that llmperf brings.
_SONNET: Final = """\
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""


@dataclass(frozen=True)
class _Request:
    body: dict[str, Any]
    input_tokens: int


def main() -> int:
    """Runs the load; returns the exit status, which is 0 even where requests failed."""
    options = _parser().parse_args()
    base, key = os.environ.get("OPENAI_API_BASE"), os.environ.get("OPENAI_API_KEY")
    if not base or not key:
        print("OPENAI_API_BASE and OPENAI_API_KEY must be set", file=sys.stderr)
        return 2
    start = time.monotonic()
    results = asyncio.run(_load(options, base, key))
    _write(options, results, time.monotonic() - start)
    return 0


def requests_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The bodies that will be sent; equal options, equal bodies."""
    return (request.body for request in _requests(options))


def _requests(options: argparse.Namespace) -> Iterator[_Request]:
    chance = random.Random(11)
    own = lines(options.text.read_text(encoding="utf-8") if options.text else None)
    given = json.loads(options.prompts.read_text(encoding="utf-8")) if options.prompts else []
    prompts = itertools.cycle(given)
    for _ in range(options.max_num_completed_requests):
        length = _positive(chance, options.mean_output_tokens, options.stddev_output_tokens)
        if given:
            text = next(prompts)
            messages = [{"role": "user", "content": text}]
        else:
            wanted = _positive(chance, options.mean_input_tokens, options.stddev_input_tokens)
            text = prompt(chance, own, wanted * _CHARACTERS_PER_TOKEN, length)
            # As llmperf does.
            messages = [{"role": "system", "content": ""}, {"role": "user", "content": text}]
        body = {"model": options.model, "messages": messages, "stream": True, "max_tokens": length}
        yield _Request(body | options.additional_sampling_params, _tokens(text))


def lines(text: str | None) -> list[str]:
    """The lines that fill the prompts; None stands for the driver's own."""
    return (_SONNET if text is None else text).splitlines(keepends=True)


def prompt(chance: random.Random, lines: list[str], characters: int, length: int) -> str:
    """``characters`` of instruction and shuffled ``lines``, asking for ``length`` tokens."""
    text = f"Go on with lines like these until there are {length} tokens:\n\n"
    while len(text) < characters:
        text += "".join(chance.sample(lines, len(lines)))
    return text[:characters]


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def _positive(chance: random.Random, mean: int, deviation: int) -> int:
    return max(1, round(chance.gauss(mean, deviation)))


async def _load(options: argparse.Namespace, base: str, key: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + options.timeout
    queue = iter(list(_requests(options)))
    results: list[dict[str, Any]] = []

    async def worker() -> None:
        for request in queue:
            if time.monotonic() >= deadline:
                return
            results.append(await _send(session, base, request))

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None, sock_read=_READ_TIMEOUT),
        headers={"Authorization": f"Bearer {key}"},
    ) as session:
        await asyncio.gather(*(worker() for _ in range(options.num_concurrent_requests)))
    return results


async def _send(session: aiohttp.ClientSession, base: str, request: _Request) -> dict[str, Any]:
    answer = _Answer()
    try:
        async with session.post(f"{base}/chat/completions", json=request.body) as response:
            if response.status != 200:
                answer.fail(response.status, (await response.text())[:500])
            else:
                async for line in response.content:
                    answer.take(line)
    except (*_TRANSPORT_ERRORS, *_MALFORMED) as error:
        answer.fail(-1, f"{type(error).__name__}: {error}")
    return answer.fields(request.input_tokens)


class _Answer:
    """One answer, measured as llmperf measures it."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._ttft = self._last = 0.0
        self._events = 0
        self._text = ""
        self._error: tuple[int | None, str] = (None, "")

    def fail(self, code: int, text: str) -> None:
        self._error = (code, text)

    def take(self, line: bytes) -> None:
        field, _, data = line.strip().partition(b":")
        if field != b"data" or data.strip() in (b"", b"[DONE]"):
            return
        self._events += 1
        body = json.loads(data)
        if "error" in body:
            self.fail(int(body["error"].get("code") or -1), str(body["error"].get("message")))
            return
        # Some servers send an event without a choice, about the prompt or the usage.
        if body["choices"] and (content := body["choices"][0]["delta"].get("content")):
            self._last = time.monotonic() - self._start
            self._ttft = self._ttft or self._last
            self._text += content

    def fields(self, input_tokens: int) -> dict[str, Any]:
        code, text = self._error
        whole = time.monotonic() - self._start if code is None else 0
        tokens = _tokens(self._text)
        return {
            "error_code": code,
            "error_msg": text,
            "inter_token_latency_s": self._last / self._events if tokens else 0,
            "ttft_s": self._ttft,
            "end_to_end_latency_s": whole,
            "request_output_throughput_token_per_s": tokens / whole if whole else 0,
            "number_total_tokens": input_tokens + tokens,
            "number_output_tokens": tokens,
            "number_input_tokens": input_tokens,
        }


def _write(options: argparse.Namespace, results: list[dict[str, Any]], seconds: float) -> None:
    stem = llmperf.file_stem(options.model, options.mean_input_tokens, options.mean_output_tokens)
    options.results_dir.mkdir(parents=True, exist_ok=True)
    for kind, value in (
        ("summary", _summary(options, results, seconds, f"{stem}_summary")),
        ("individual_responses", results),
    ):
        path = options.results_dir / f"{stem}_{kind}.json"
        path.write_text(json.dumps(value, indent=4), encoding="utf-8")


def _summary(
    options: argparse.Namespace, results: list[dict[str, Any]], seconds: float, name: str
) -> dict[str, Any]:
    good = [result for result in results if result["error_code"] is None]
    errors = Counter(result["error_code"] for result in results if result not in good)
    summary: dict[str, Any] = {
        "name": name,
        "model": options.model,
        "mean_input_tokens": options.mean_input_tokens,
        "stddev_input_tokens": options.stddev_input_tokens,
        "mean_output_tokens": options.mean_output_tokens,
        "stddev_output_tokens": options.stddev_output_tokens,
        "num_concurrent_requests": options.num_concurrent_requests,
        "results_num_requests_started": len(results),
        "results_number_errors": len(results) - len(good),
        "results_error_code_frequency": str(dict(errors)),
        "results_num_completed_requests": len(good),
        "results_num_completed_requests_per_min": 60 * len(good) / seconds,
        "results_mean_output_throughput_token_per_s": sum(
            result["number_output_tokens"] for result in good
        )
        / seconds,
    }
    for field in ("inter_token_latency_s", "ttft_s", "end_to_end_latency_s"):
        values = [result[field] for result in good]
        if values:
            summary[f"results_{field}_quantiles_p50"] = statistics.median(values)
            summary[f"results_{field}_mean"] = statistics.fmean(values)
    pairs = (item.partition("=") for item in options.metadata.split(",") if item)
    return summary | {name: value for name, _, value in pairs}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmark.load.builtin", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--mean-input-tokens", type=int, default=550)
    parser.add_argument("--stddev-input-tokens", type=int, default=150)
    parser.add_argument("--mean-output-tokens", type=int, default=150)
    parser.add_argument("--stddev-output-tokens", type=int, default=80)
    parser.add_argument("--num-concurrent-requests", type=int, default=10)
    parser.add_argument("--max-num-completed-requests", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--additional-sampling-params", type=json.loads, default={})
    parser.add_argument("--results-dir", type=Path, required=True)
    parser.add_argument("--llm-api", choices=["openai"], default="openai")
    parser.add_argument("--metadata", default="")
    parser.add_argument("--text", type=Path, help="lines to fill prompts with")
    parser.add_argument("--prompts", type=Path, help="JSON list of prompts to send as they are")
    return parser


if __name__ == "__main__":
    sys.exit(main())
