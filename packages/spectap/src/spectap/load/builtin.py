"""The built-in load driver: closed or open loop, with llmperf's arguments and result files.

It makes the load where llmperf is not installed, for the prompts of a set, and for request rates.
It writes each response by llmperf's formulas with their faults: events are taken for tokens, and
the "inter-token latency" includes the time to first token. It estimates four characters a token.
A closed loop is full before the first request that counts, and stays so until standard input ends:
until the other variants' loads have, too.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp

from spectap.load.requests import Reply, Request, requests_of
from spectap.loop_lag import Lag
from spectap.names import BEYOND_HEADER, DUE_HEADER, LAG_HEADER
from spectap.protocol import limits
from spectap.protocol.limits import LimitError
from spectap.protocol.text import PATHS, EndpointType

CLOSED: Final = "closed-loop"
OPEN: Final = "open-loop"

_READ_TIMEOUT: Final = 180.0  # seconds without a byte; llmperf's

_FAILURES: Final = (aiohttp.ClientError, asyncio.TimeoutError, LimitError)

_CONCURRENCY: Final = "num-concurrent-requests"
_LLMPERF_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "model": str,
    "mean-input-tokens": int,
    "stddev-input-tokens": int,
    "mean-output-tokens": int,
    "stddev-output-tokens": int,
    _CONCURRENCY: int,
    "max-num-completed-requests": int,
    "timeout": float,
    "additional-sampling-params": json.loads,
    "results-dir": Path,
    "llm-api": str,
    "metadata": str,
}

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Finished(NamedTuple):
    fields: dict[str, Any]
    """The fields that llmperf writes of a request."""
    answer: dict[str, Any] | None
    """The whole answer; None where it broke off."""


def main() -> int:
    """Runs the load; returns the exit status, which is 0 even where requests failed."""
    options = parser().parse_args()
    url = f"{os.environ['OPENAI_API_BASE']}/{PATHS[options.endpoint_type]}"
    _write(options, asyncio.run(_load(options, url, os.environ["OPENAI_API_KEY"])))
    return 0


def parser() -> argparse.ArgumentParser:
    """llmperf's options, and those that it does not have."""
    parser = argparse.ArgumentParser(prog="spectap.load.builtin", description=__doc__)
    for option, kind in _LLMPERF_OPTIONS.items():
        parser.add_argument(f"--{option}", type=kind, required=option != _CONCURRENCY)
    parser.add_argument("--text", type=Path, help="lines to fill prompts with")
    parser.add_argument("--prompts", type=Path, help="prompts to send as they are, in JSON lines")
    parser.add_argument("--rate", type=float, help="requests a second, in place of a concurrency")
    parser.add_argument("--fill", type=int, default=0, help="requests before those that count")
    parser.add_argument("--seed", default="", help="of when requests are sent, and of prompts")
    parser.add_argument("--endpoint-type", type=EndpointType, default=EndpointType.CHAT)
    parser.add_argument("--answers", type=Path, help="takes the whole answers, in JSON lines")
    return parser


async def _load(options: argparse.Namespace, url: str, key: str) -> list[_Finished]:
    deadline = time.monotonic() + options.timeout
    endless, count = requests_of(options), options.max_num_completed_requests
    requests = list(itertools.islice(endless, options.fill + count))
    gc.collect()
    gc.freeze()  # a collection in the midst of the load would delay what is due
    async with aiohttp.ClientSession(
        # Connections are used again: the tap closes none, and a new one delays a request.
        connector=aiohttp.TCPConnector(limit=0),
        # Beyond a server's batch, an answer may wait for its first byte as long as the load lasts.
        timeout=aiohttp.ClientTimeout(total=None, sock_read=max(_READ_TIMEOUT, options.timeout)),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        auto_decompress=False,  # the tap asks for plain answers: 1 MB would become 1 GB
    ) as session:
        lag = Lag()
        begun = lag.mark()

        def send(request: Request, headers: dict[str, str]) -> Awaitable[_Finished]:
            late = f"{lag.since(begun):.6f}"
            return _send(session, url, request, headers | {LAG_HEADER: late})

        if options.rate is None:
            # A read that needs no lock: the process may end before it does.
            others = threading.Thread(target=os.read, args=(0, 1), daemon=True)
            others.start()
            return await closed(
                itertools.chain(requests, endless),
                lambda request, counts: send(request, {} if counts else {BEYOND_HEADER: "1"}),
                lambda finished: finished.fields["error_code"] is None,
                fill=options.fill,
                count=count,
                concurrency=options.num_concurrent_requests,
                deadline=deadline,
                others_run=others.is_alive,
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
        async with session.post(
            url, data=request.body, headers=headers, allow_redirects=False
        ) as response:
            if response.status != 200:
                body = (await response.read())[:500]
                reply.fail(response.status, body.decode("utf-8", "replace"))
            else:
                async for data in response.content.iter_any():
                    reply.take(data)
                reply.end()
        answer = reply.answer(request.prompt)
    except _FAILURES as error:
        if limits.short_of_files(error):
            raise SystemExit(limits.SHORTAGE) from None
        reply.fail(-1, f"{type(error).__name__}: {error}")
    return _Finished(reply.fields(), answer)


def _write(options: argparse.Namespace, finished: list[_Finished]) -> None:
    summary = {"model": options.model, "driver": options.metadata.removeprefix("driver=")}
    responses = [request.fields for request in finished]
    options.results_dir.mkdir(parents=True, exist_ok=True)
    for kind, value in (("summary", summary), ("individual_responses", responses)):
        path = options.results_dir / f"builtin_{kind}.json"
        path.write_text(json.dumps(value, indent=4), encoding="utf-8")
    if options.answers:
        answers = (
            json.dumps(answer, ensure_ascii=False) + "\n" for _, answer in finished if answer
        )
        # Half of a surrogate pair, which a server may send, is not text.
        options.answers.write_text("".join(answers), encoding="utf-8", errors="replace")


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
    fill: int,
    count: int,
    concurrency: int,
    deadline: float,
    others_run: Callable[[], bool],
) -> list[Result]:
    """Keeps ``concurrency`` of ``items`` in flight until ``count`` have ended and ``others_run``
    ends.

    ``others_run`` stands for loads of other variants, which this load may slow. The first ``fill``
    items do not count, because they find an empty server. Further items replace those that end, so
    that the last one that counts meets the same load. ``send`` is told whether an item counts.
    After a further item without a ``good`` result, its slot stays empty: a server that refuses
    would be asked without end. Returns the results that count. No item begins after ``deadline``
    (monotonic seconds).
    """
    queue, results = enumerate(items, start=-fill), list[Result]()

    async def worker() -> None:
        for number, item in queue:
            counts = 0 <= number < count
            ended = len(results) == count and not others_run()
            if time.monotonic() >= deadline or (number >= count and ended):
                return
            result = await send(item, counts)
            if counts:
                results.append(result)
            elif number >= count and not good(result):
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
    """Sends each item at its time, however many are in flight, and none after ``deadline``.

    ``send`` is told when the item was due, in Unix seconds. A late item is sent at once and delays
    no other.
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
