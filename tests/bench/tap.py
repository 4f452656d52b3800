"""How much later a chunk arrives through the tap, and what the tap costs.

``python -m tests.bench.tap [--streams 64] [--rate 70] [--seconds 5] [--rounds 3]``

Server, tap and client are a process each. Rounds with and without the tap alternate, so that both
see the same machine. A chunk's delay is the client's time of arrival minus the server's own record
of when it sent the chunk.

Three busy processes on few cores wait for one another and for whatever else runs, up to the
scheduler's time slice of some milliseconds. So the same is measured under real-time scheduling
too, where that is allowed: it keeps other programs out, and what is left is the tap's own.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.processes import paced, staggered, streams, tapped

Delays = list[float]


def main() -> None:
    """Prints the table; ends all processes it started."""
    arguments = _arguments()
    _measure(arguments, "the machine's own scheduling")
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # inherited by all it starts
    except PermissionError:
        print("real-time scheduling: not allowed here")
        return
    _measure(arguments, "real-time scheduling")


def _measure(arguments: argparse.Namespace, scheduling: str) -> None:
    direct: list[Delays] = []
    through: list[Delays] = []
    cpu = 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        paced(arguments.rate, arguments.rate * arguments.seconds) as (url, sent),
        tapped(url, Path(folder) / "ledger.jsonl") as (tap_url, tap_pid),
    ):
        for _ in range(arguments.rounds):
            direct.append(_delays(arguments, url, sent))
            before = _cpu_seconds(tap_pid)
            through.append(_delays(arguments, tap_url, sent))
            cpu += _cpu_seconds(tap_pid) - before
    _report(arguments, scheduling, direct, through, cpu)


def _delays(
    arguments: argparse.Namespace, url: str, sent: Callable[[], dict[str, list[float]]]
) -> Delays:
    names = [f"{time.monotonic_ns()}-{index}" for index in range(arguments.streams)]
    delays = staggered(arguments.streams, arguments.rate)
    arrivals = streams(url, names, delays, arguments.rate * arguments.seconds)
    times = sent()
    return [
        arrived - at
        for name, arrived_at in zip(names, arrivals, strict=True)
        for arrived, at in zip(arrived_at, times[name], strict=True)
    ]


def _report(
    arguments: argparse.Namespace,
    scheduling: str,
    direct: list[Delays],
    through: list[Delays],
    cpu: float,
) -> None:
    print(
        f"{arguments.streams} streams of {arguments.rate} chunks/s, {arguments.rounds} rounds of "
        f"{arguments.seconds} s each; {scheduling}; load average {os.getloadavg()[0]:.1f}"
    )
    print(f"{'chunk delay, ms':<16}{'p50':>8}{'p90':>8}{'p99':>8}{'p99.9':>8}{'chunks':>10}")
    rows = {
        "without tap": list(itertools.chain(*direct)),
        "with tap": list(itertools.chain(*through)),
    }
    figures = [_percentiles(delays) for delays in rows.values()]
    for (name, delays), row in zip(rows.items(), figures, strict=True):
        print(f"{name:<16}{''.join(f'{figure:8.3f}' for figure in row)}{len(delays):>10,}")
    print(f"{'added':<16}{''.join(f'{b - a:8.3f}' for a, b in zip(*figures, strict=True))}")
    rounds = [_percentiles(b)[2] - _percentiles(a)[2] for a, b in zip(direct, through, strict=True)]
    print(f"added p99 by round: {', '.join(f'{figure:.3f}' for figure in rounds)}")
    print(f"CPU of the tap per 1,000 chunks: {1e6 * cpu / len(rows['with tap']):.1f} ms")


def _percentiles(delays: list[float]) -> list[float]:
    cuts = statistics.quantiles(delays, n=1000)
    return [1000 * cuts[index] for index in (499, 899, 989, 998)]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rate", type=int, default=70, help="chunks a second, each stream")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
