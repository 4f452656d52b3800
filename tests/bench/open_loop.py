"""How well the built-in driver keeps the schedule of an open loop.

``python -m tests.bench.open_loop [--rates 10] [--seconds 30]``

Server, tap and driver are a process each, as in a run. A request's lag is the time at which the tap
sent it on minus the time at which it was due, both by the ledger: the tap's own time is in it.

As with the tap's own bench, the same is measured under real-time scheduling too, where that is
allowed: it keeps other programs out, so that the machine is as if it were quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
from pathlib import Path

import numpy as np

from spectap.config import Structure, TestCase
from spectap.ledger import read_ledger
from spectap.load.builtin import arrivals
from spectap.load.driver import Driver
from spectap.load_points import Load, LoadPoint
from spectap.record import Record
from tests.bench.processes import golden, tapped

CASE = TestCase(name="counting", line="counting ", structure=Structure.STRUCTURED)
CHUNKS = 32
CHUNKS_PER_SECOND = 70


def main() -> None:
    """Prints a line for each rate; ends all processes it started."""
    arguments = _arguments()
    _measure(arguments, "the machine's own scheduling")
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # inherited by all it starts
    except PermissionError:
        print("real-time scheduling: not allowed here")
        return
    _measure(arguments, "real-time scheduling")


def _measure(arguments: argparse.Namespace, scheduling: str) -> None:
    print(
        f"open loop, answers of {CHUNKS} chunks, {CHUNKS_PER_SECOND} a second, "
        f"{arguments.seconds} s for each rate; {scheduling}; load average {os.getloadavg()[0]:.1f}"
    )
    print(f"{'requests/s':<12}{'sent':>8}{'lag, ms: p50':>16}{'p99':>8}{'worst':>8}")
    for rate in arguments.rates:
        point = LoadPoint(rate=rate, requests=round(rate * arguments.seconds))
        lags = [1000 * lag for lag in _lags(point)]
        p50, p99 = np.percentile(lags, [50, 99])
        print(f"{rate:<12g}{len(lags):>8}{p50:>16.2f}{p99:>8.2f}{max(lags):>8.2f}", flush=True)


def _lags(point: LoadPoint) -> list[float]:
    """Seconds by which each request was late."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        golden(CHUNKS_PER_SECOND, (1, 2, 3, 4)) as endpoint,
        tapped(endpoint, Path(scratch) / "ledger.jsonl") as (url, _),
    ):
        folder = Path(scratch)
        load = Load(
            mean_input_tokens=64,
            mean_output_tokens=CHUNKS,
            points=(point,),
            rounds=1,
            timeout_seconds=600,
        )
        running = Driver(None, folder).run(
            model="Qwen/Qwen3-32B",
            case=CASE,
            prompts=(),
            shape=load,
            point=point,
            seed=point.name,
            endpoint=url,
            results=folder / "llmperf" / CASE.name / point.name / "Base" / "round-1",
        )
        asyncio.run(running)
        return _lateness(read_ledger(folder / "ledger.jsonl"), point)


def _lateness(records: list[Record], point: LoadPoint) -> list[float]:
    assert all(record.succeeded for record in records)
    due = sorted(record.due or 0.0 for record in records)
    gaps = np.diff(arrivals(point.rate or 0.0, point.name, point.requests))
    assert np.allclose(np.diff(due), gaps, atol=1e-5), "the schedule is not the seed's"
    return [record.sent - (record.due or 0.0) for record in records]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[10], help="requests a second")
    parser.add_argument("--seconds", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
