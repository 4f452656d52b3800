"""What passes through the tap: how much later, how truly recorded, how well on schedule.

``python -m benchmarks.tap [--streams 64] [--rate 70] [--seconds 5] [--rounds 3]``

- Delay: rounds with and without the tap alternate. A chunk's delay is the client's time of arrival
  minus the server's own record of when it sent the chunk.
- Truth: the ledger against the server's own record, beside llmperf's formula.
- Schedule: when the tap sent a request of an open loop on, minus when it was due.

Busy processes on few cores wait for one another up to the scheduler's time slice. So all is
measured under real-time scheduling too, where that is allowed: it keeps other programs out.
"""

import argparse
import asyncio
import itertools
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.processes import Sent, golden, record, streams, tapped
from spectap import metrics
from spectap.inputs.config import Structure, TestCase
from spectap.inputs.load_points import Load, LoadPoint
from spectap.load.builtin import arrivals
from spectap.load.driver import Driver
from spectap.records.ledger import read_ledger

CASE: Final = TestCase(name="counting", line="counting ", structure=Structure.STRUCTURED)
SIZES: Final = (1, 2, 3, 4, 5, 6, 7, 8)
CHUNKS: Final = 32
REQUESTS_A_SECOND: Final = 10


def main() -> None:
    """Prints the tables; ends all processes it started."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rate", type=int, default=70, help="chunks a second, each stream")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    _measure(arguments, "the machine's own scheduling")
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # inherited by all it starts
    except PermissionError:
        print("real-time scheduling: not allowed here")
        return
    _measure(arguments, "real-time scheduling")


def _measure(arguments: argparse.Namespace, scheduling: str) -> None:
    print(
        f"{arguments.streams} streams of {arguments.rate} chunks/s, {arguments.rounds} rounds of "
        f"{arguments.seconds} s each; {scheduling}; load average {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for measure in (_delay, _truth, _schedule):
            measure(arguments, Path(folder) / f"{measure.__name__}.jsonl")


def _delay(arguments: argparse.Namespace, ledger: Path) -> None:
    rounds: list[list[list[float]]] = [[], []]
    cpu = 0.0
    with golden(arguments.rate, SIZES[3:4]) as url, tapped(url, ledger) as (tap_url, tap_pid):
        for _ in range(arguments.rounds):
            rounds[0].append(_delays(arguments, url, url))
            before = _cpu_seconds(tap_pid)
            rounds[1].append(_delays(arguments, tap_url, url))
            cpu += _cpu_seconds(tap_pid) - before
    print(f"{'chunk delay, ms':<16}{'p50':>8}{'p90':>8}{'p99':>8}{'p99.9':>8}{'chunks':>10}")
    every = [[*itertools.chain(*of_side)] for of_side in rounds]
    rows = [1000 * np.percentile(delays, (50, 90, 99, 99.9)) for delays in every]
    for name, row in zip(("without tap", "with tap"), rows, strict=True):
        print(f"{name:<16}{''.join(f'{figure:8.3f}' for figure in row)}{len(every[0]):>10,}")
    print(f"{'added':<16}{''.join(f'{figure:8.3f}' for figure in rows[1] - rows[0])}")
    added = [
        1000 * (np.percentile(b, 99) - np.percentile(a, 99)) for a, b in zip(*rounds, strict=True)
    ]
    print(f"added p99 by round: {', '.join(f'{figure:.3f}' for figure in added)}")
    print(f"CPU of the tap per 1,000 chunks: {1e6 * cpu / len(every[1]):.1f} ms")


def _delays(arguments: argparse.Namespace, url: str, endpoint: str) -> list[float]:
    names = _names(arguments.streams)
    arrived = streams(url, names, arguments.rate, arguments.rate * arguments.seconds)
    sent = record(endpoint)
    return [
        at - sent_at
        for name, of_stream in zip(names, arrived, strict=True)
        for at, (sent_at, _) in zip(of_stream, sent[name]["chunks"], strict=True)
    ]


def _names(count: int) -> list[str]:
    return [f"{time.monotonic_ns()}-{index}" for index in range(count)]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _truth(arguments: argparse.Namespace, ledger: Path) -> None:
    count, rate = arguments.streams, arguments.rate
    with golden(rate, SIZES) as url, tapped(url, ledger) as (tap_url, _):
        for chunks in (1, rate * arguments.seconds):  # the first is a warm-up
            streams(tap_url, _names(count), rate, chunks)
        sent = [*record(url).values()][count:]
    # Both in the order of arrival, the server's and the tap's: the client named the requests.
    records = sorted(read_ledger(ledger)[count:], key=lambda r: r.sent)
    pairs = [*zip(records, sent, strict=True)]
    exact = all([n for _, n in r.chunks] == [n for _, n in s["chunks"]] for r, s in pairs)
    true = np.array([_true_time_per_token(s) for s in sent])
    seconds = np.array([metrics.time_per_output_token(r) or 0 for r in records])
    late = [(metrics.ttft(r) or 0) - (s["chunks"][0][0] - s["received"]) for r, s in pairs]
    llmperf = np.array([metrics.llmperf_inter_token_latency(r) or 0 for r in records])
    print(f"tokens of each chunk: {'exact' if exact else 'LOST'}")
    print(f"time per output token is off by {_percentiles(100 * abs(seconds / true - 1))} %")
    print(f"time to first token is off by {_percentiles(1000 * np.abs(late))} ms")
    print(f"llmperf's inter-token latency is off by {100 * np.median(llmperf / true - 1):.0f} %")


def _true_time_per_token(sent: Sent) -> float:
    (first, tokens), (last, _) = sent["chunks"][0], sent["chunks"][-1]
    return float((last - first) / (sum(count for _, count in sent["chunks"]) - tokens))


def _percentiles(values: Sequence[float] | npt.NDArray[np.floating[Any]]) -> str:
    p50, p99 = np.percentile(values, (50, 99))
    return f"{p50:.3f} (p50), {p99:.3f} (p99), {np.max(values):.3f} (worst)"


def _schedule(arguments: argparse.Namespace, ledger: Path) -> None:
    requests = 2 * REQUESTS_A_SECOND * arguments.seconds
    point = LoadPoint(rate=REQUESTS_A_SECOND, requests=requests)
    load = Load(
        mean_input_tokens=64,
        mean_output_tokens=CHUNKS,
        points=(point,),
        rounds=1,
        timeout_seconds=600,
    )
    with golden(arguments.rate, SIZES[:4]) as endpoint, tapped(endpoint, ledger) as (url, _):
        running = Driver(None, ledger.parent).run(
            model="Qwen/Qwen3-32B",
            case=CASE,
            prompts=(),
            load=load,
            point=point,
            seed=point.name,
            endpoint=url,
            results=ledger.parent / "llmperf",
        )
        asyncio.run(running)
    records = read_ledger(ledger)
    assert all(record.succeeded for record in records)
    due = sorted(record.due or 0.0 for record in records)
    gaps = np.diff(arrivals(REQUESTS_A_SECOND, point.name, point.requests))
    assert np.allclose(np.diff(due), gaps, atol=1e-5), "the schedule is not the seed's"
    lags = [1000 * (record.sent - (record.due or 0.0)) for record in records]
    print(f"{point}: {len(lags)} sent, late by {_percentiles(lags)} ms")


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
