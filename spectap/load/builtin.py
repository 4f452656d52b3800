"""The built-in load driver: closed or open loop, with llmperf's arguments and result files.

It makes the load where llmperf cannot: where llmperf is not installed (it is not on PyPI and needs
an older Python), for the prompts of a set, and for request rates. It writes the same fields by the
same formulas with the same faults: events are taken for tokens, and the "inter-token latency"
includes the time to first token. It has no tokenizer, so it estimates four characters a token.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import itertools
import json
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp

from spectap.load import llmperf
from spectap.load.requests import Reply, Request, requests_of
from spectap.names import BEYOND_HEADER, DUE_HEADER

CLOSED: Final = "closed-loop"
OPEN: Final = "open-loop"

_READ_TIMEOUT: Final = 180.0  # seconds without a byte; llmperf's

_FAILURES: Final = (
    *(aiohttp.ClientError, asyncio.TimeoutError),
    *(ValueError, LookupError, TypeError, AttributeError),  # an event of another shape
)


Item = TypeVar("Item")
Result = TypeVar("Result")


class _Finished(NamedTuple):
    fields: dict[str, Any]
    """llmperf's."""
    answer: dict[str, Any] | None
    """None where it did not come whole."""


def main() -> int:
    """Runs the load; returns the exit status, which is 0 even where requests failed."""
    options = parser().parse_args()
    base, key = os.environ.get("OPENAI_API_BASE"), os.environ.get("OPENAI_API_KEY")
    if not base or not key:
        print("OPENAI_API_BASE and OPENAI_API_KEY must be set", file=sys.stderr)
        return 2
    start = time.monotonic()
    finished = asyncio.run(_load(options, f"{base}/chat/completions", key))
    _write(options, finished, time.monotonic() - start)
    return 0


def parser() -> argparse.ArgumentParser:
    """llmperf's options, and those that it does not have."""
    parser = argparse.ArgumentParser(prog="spectap.load.builtin", description=__doc__)
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
    parser.add_argument("--prompts", type=Path, help="prompts to send as they are, in JSON lines")
    parser.add_argument("--rate", type=float, help="requests a second, in place of a concurrency")
    parser.add_argument("--seed", default="", help="of the times at which requests are sent")
    parser.add_argument("--answers", type=Path, help="takes the whole answers, in JSON lines")
    return parser


async def _load(options: argparse.Namespace, url: str, key: str) -> list[_Finished]:
    deadline = time.monotonic() + options.timeout
    endless, count = requests_of(options), options.max_num_completed_requests
    requests = list(itertools.islice(endless, count))
    gc.collect()
    gc.freeze()  # a collection in the midst of the load would delay what is due
    async with aiohttp.ClientSession(
        # Connections are used again: the tap closes none, and a new one delays a request.
        connector=aiohttp.TCPConnector(limit=0),
        # Beyond a server's batch, an answer may wait for its first byte as long as the load lasts.
        timeout=aiohttp.ClientTimeout(total=None, sock_read=max(_READ_TIMEOUT, options.timeout)),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    ) as session:
        send = functools.partial(_send, session, url)
        if options.rate is None:
            return await closed(
                itertools.chain(requests, endless),
                lambda request, counts: send(request, {} if counts else {BEYOND_HEADER: "1"}),
                lambda finished: finished.fields["error_code"] is None,
                count=count,
                concurrency=options.num_concurrent_requests,
                deadline=deadline,
            )
        return await opened(
            requests,
            lambda request, due: send(request, {DUE_HEADER: f"{due:.6f}"}),
            offsets=arrivals(options.rate, options.seed, count),
            deadline=deadline,
        )


async def _send(
    session: aiohttp.ClientSession, url: str, request: Request, more_headers: Mapping[str, str]
) -> _Finished:
    headers = {**request.headers, **more_headers}
    reply, answer = Reply(), None
    try:
        async with session.post(url, data=request.body, headers=headers) as response:
            if response.status != 200:
                reply.fail(response.status, (await response.text())[:500])
            else:
                async for line in response.content:
                    reply.take(line)
        answer = reply.answer(request.prompt)
    except _FAILURES as error:
        reply.fail(-1, f"{type(error).__name__}: {error}")
    return _Finished(reply.fields(request.input_tokens), answer)


def _write(options: argparse.Namespace, finished: list[_Finished], seconds: float) -> None:
    stem = llmperf.file_stem(options.model, options.mean_input_tokens, options.mean_output_tokens)
    results = [request.fields for request in finished]
    options.results_dir.mkdir(parents=True, exist_ok=True)
    for kind, value in (
        ("summary", _summary(options, results, seconds, f"{stem}_summary")),
        ("individual_responses", results),
    ):
        path = options.results_dir / f"{stem}_{kind}.json"
        path.write_text(json.dumps(value, indent=4), encoding="utf-8")
    if options.answers:
        answers = (
            json.dumps(request.answer, ensure_ascii=False) + "\n"
            for request in finished
            if request.answer
        )
        # Half of a surrogate pair, which a server may send, is no text.
        options.answers.write_text("".join(answers), encoding="utf-8", errors="replace")


def _summary(
    options: argparse.Namespace, results: list[dict[str, Any]], seconds: float, name: str
) -> dict[str, Any]:
    good = [result for result in results if result["error_code"] is None]
    codes = (result["error_code"] for result in results)
    errors = Counter(code for code in codes if code is not None)
    point = {"num_concurrent_requests": options.num_concurrent_requests}
    if options.rate is not None:
        point = {"requests_per_second": options.rate, "seed": options.seed}
    summary: dict[str, Any] = {
        "name": name,
        "model": options.model,
        "mean_input_tokens": options.mean_input_tokens,
        "stddev_input_tokens": options.stddev_input_tokens,
        "mean_output_tokens": options.mean_output_tokens,
        "stddev_output_tokens": options.stddev_output_tokens,
        **point,
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


def arrivals(rate: float, seed: str, count: int) -> list[float]:
    """Seconds after the start at which ``count`` requests arrive, ``rate`` a second on average.

    A Poisson process: the gaps are exponential, the one before the first included. Equal seeds,
    equal times.
    """
    chance = random.Random(seed)
    return list(itertools.accumulate(chance.expovariate(rate) for _ in range(count)))


async def closed(
    items: Iterable[Item],
    send: Callable[[Item, bool], Awaitable[Result]],
    good: Callable[[Result], bool],
    *,
    count: int,
    concurrency: int,
    deadline: float,
) -> list[Result]:
    """Keeps ``concurrency`` of ``items`` in flight until the first ``count`` have ended.

    Further items take the slots of those that have ended: otherwise the last of the ``count`` would
    meet a lighter load than the first. ``send`` gets whether an item counts. Where one that does
    not count has no ``good`` result, its slot stays empty: a server that refuses would be asked
    without end. Returns the results that count. None begins after ``deadline`` (monotonic seconds).
    """
    queue, results = enumerate(items), list[Result]()

    async def worker() -> None:
        for number, item in queue:
            counts = number < count
            if time.monotonic() >= deadline or (not counts and len(results) == count):
                return
            result = await send(item, counts)
            if counts:
                results.append(result)
            elif not good(result):
                return

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return results


async def opened(
    items: Sequence[Item],
    send: Callable[[Item, float], Awaitable[Result]],
    *,
    offsets: Sequence[float],
    deadline: float,
) -> list[Result]:
    """Sends each at its time, whatever is in flight, and none after ``deadline``.

    ``send`` gets when it was due, in Unix seconds. What is late is sent at once, and delays none.
    """
    start, wall = time.monotonic(), time.time()
    sending = []
    for item, offset in zip(items, offsets, strict=True):
        await asyncio.sleep(start + offset - time.monotonic())
        if time.monotonic() >= deadline:
            break
        sending.append(asyncio.ensure_future(send(item, wall + offset)))
    return await asyncio.gather(*sending)


if __name__ == "__main__":
    sys.exit(main())
