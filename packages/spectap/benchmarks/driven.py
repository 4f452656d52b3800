"""``python -m benchmarks.driven URL STREAMS FOLDER``: the tap and the built-in driver before a
server; writes the figures that ``benchmarks.peers`` holds against the truth."""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.paced import MODEL
from spectap import metrics
from spectap.inputs.config import Structure, TestCase
from spectap.inputs.load_points import Load, LoadPoint
from spectap.load.driver import Driver
from spectap.records.journal import Journal
from spectap.records.ledger import read_ledger
from spectap.tap.tap import Tap, collect_garbage

ANSWERS = 3


async def _drive(url: str, streams: int, folder: Path, file: Path) -> None:
    point = LoadPoint(concurrency=streams, requests=ANSWERS * streams)
    load = Load(
        mean_input_tokens=64,
        mean_output_tokens=93,
        points=(point,),
        rounds=1,
        timeout_seconds=600,
    )
    case = TestCase(name="counting", line="counting ", structure=Structure.STRUCTURED)
    with Journal(file) as ledger:
        async with Tap(url, run="bench", variant="Base", ledger=ledger) as tap:
            collect_garbage()
            await Driver(None, folder).run(
                model=MODEL,
                case=case,
                prompts=(),
                load=load,
                point=point,
                seed=point.name,
                endpoint=tap.url,
                results=folder / "results",
            )


def main() -> None:
    """Drives, reads the ledger and writes the figures."""
    url, streams, name = sys.argv[1:]
    folder = Path(name)
    file = folder / "ledger.jsonl"
    asyncio.run(_drive(url, int(streams), folder, file))
    records = read_ledger(file)
    assert all(record.succeeded for record in records)
    tpots = [metrics.time_per_output_token(record) or 0 for record in records]
    p50, p99 = np.percentile(tpots, (50, 99))
    ttft = np.median([metrics.ttft(record) or 0 for record in records])
    figures = {"ttft_p50": float(ttft), "tpot_p50": float(p50), "tpot_p99": float(p99)}
    (folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
