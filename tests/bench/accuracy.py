"""How true the ledger is, held against the server's own record, beside llmperf's formula.

``python -m tests.bench.accuracy [--streams 1 8 64] [--rate 70] [--seconds 5]``

Streams of 1 to 8 tokens a chunk; server, tap and client are a process each.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from spectap import metrics
from spectap.ledger import read_ledger
from spectap.record import Record
from tests.bench.processes import Sent, golden, record, staggered, streams, tapped

SIZES = (1, 2, 3, 4, 5, 6, 7, 8)


def main() -> None:
    """Prints a line for each number of streams at once; ends all processes it started."""
    arguments = _arguments()
    print(f"chunks of 1 to 8 tokens, {arguments.rate} a second; load {os.getloadavg()[0]:.1f}")
    print(f"{'':<10}{'tokens':>10}{'TPOT error':>18}{'TTFT off by':>18}{'llmperf ITL off by':>20}")
    print(f"{'at once':<10}{'':>10}{'p50':>9}{'p99':>9}{'p50':>9}{'p99':>9}{'p50':>20}")
    for count in arguments.streams:
        with (
            tempfile.TemporaryDirectory() as folder,
            golden(arguments.rate, SIZES) as golden_url,
            tapped(golden_url, Path(folder) / "ledger.jsonl") as (tap_url, _),
        ):
            delays = staggered(count, arguments.rate)
            for chunks in (1, arguments.rate * arguments.seconds):  # the first is a warm-up
                names = [f"{time.monotonic_ns()}-{index}" for index in range(count)]
                streams(tap_url, names, delays, chunks)
            sent = list(record(golden_url).values())
            records = read_ledger(Path(folder) / "ledger.jsonl")
            _line(count, records[count:], sent[count:])


def _line(count: int, records: list[Record], sent: list[Sent]) -> None:
    # Both in the order of arrival, the server's and the tap's: the client named the requests.
    pairs = list(zip(sorted(records, key=lambda r: r.sent), sent, strict=True))
    exact = all([n for _, n in r.chunks] == [n for _, n in s["chunks"]] for r, s in pairs)
    errors = np.array([_tpot(r) / _true_tpot(s) - 1 for r, s in pairs])
    late = np.array([(metrics.ttft(r) or 0) - _true_ttft(s) for r, s in pairs])
    published = [(metrics.llmperf_inter_token_latency(r) or 0) / _true_tpot(s) for r, s in pairs]
    tpot = np.percentile(100 * abs(errors), [50, 99])
    ttft = np.percentile(1000 * abs(late), [50, 99])
    print(
        f"{count:<10}{'exact' if exact else 'LOST':>10}"
        f"{tpot[0]:>7.3f} %{tpot[1]:>7.3f} %{ttft[0]:>6.2f} ms{ttft[1]:>6.2f} ms"
        f"{100 * (np.median(published) - 1):>18.0f} %"
    )


def _tpot(record: Record) -> float:
    return metrics.time_per_output_token(record) or 0.0


def _true_tpot(sent: Sent) -> float:
    (first, tokens), (last, _) = sent["chunks"][0], sent["chunks"][-1]
    return float((last - first) / (sum(count for _, count in sent["chunks"]) - tokens))


def _true_ttft(sent: Sent) -> float:
    return float(sent["chunks"][0][0] - sent["received"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rate", type=int, default=70, help="chunks a second, each stream")
    parser.add_argument("--seconds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
