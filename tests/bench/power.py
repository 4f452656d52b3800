"""How often a true 1.3x is found, measured for real, on golden endpoints with the default load.

``python -m tests.bench.power [--runs 4] [--speed 20]``

``measure`` drives two golden endpoints with its defaults and answers of the article's length, and
ten test cases. Their scatter is the article's: that of acceptance over an answer's steps, and what
the machine adds. Ends with status 1 where fewer than 95 % of the test cases are found faster; as
many runs as four have 40 of them, so 38 must be.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from tqdm import trange

from rehearsal.golden.schedule import Decoding
from rehearsal.process.processes import await_line, running

TRUTH: Final = 1.3
FOUND: Final = 0.95
CASES: Final = 10
TOKENS: Final = 600
WINDOW: Final = 7
START_SECONDS: Final = 30.0


def main() -> int:
    """Prints what was found; returns 1 if that was too little."""
    arguments = _arguments()
    claims: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, _endpoints(Path(folder), arguments.speed) as urls:
        for run in trange(arguments.runs, unit="run"):
            claims += _measured(Path(folder), f"run-{run}", urls)
    found = sum(claim["answer"] == "better" for claim in claims)
    intervals = [claim["interval"] for claim in claims]
    held = sum(one["low"] <= TRUTH <= one["high"] for one in intervals)
    mean = math.exp(fmean(math.log(one["point"]) for one in intervals))
    print(f"{found} of {len(claims)} test cases with a true {TRUTH}x are found faster")
    print(f"{held} of {len(claims)} intervals hold {TRUTH}; mean of the speed-ups: {mean:.3f}x")
    return 0 if found >= FOUND * len(claims) else 1


def acceptance(speedup: float) -> float:
    """How likely a draft is accepted where the window makes this speed-up."""
    baseline, variant = Decoding(), Decoding(window=WINDOW)
    wanted = speedup * variant.step_seconds() / baseline.step_seconds()
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if variant.tokens_per_step(middle) < wanted else (low, middle)
    return low


@contextmanager
def _endpoints(folder: Path, speed: float) -> Iterator[list[str]]:
    """Serves a baseline and a variant, each a process; what ``measure`` takes for them."""
    with ExitStack() as stack:
        found = []
        for name, window in (("Base", 1), ("SD", WINDOW)):
            options = {"window": window, "speed": speed, "otherwise": acceptance(TRUTH)}
            command = [sys.executable, "-m", "rehearsal.golden"]
            command += [f"--{option}={value}" for option, value in options.items()]
            log = folder / f"{name}.log"
            process = stack.enter_context(running(command, os.environ, log))
            found.append(f"{name}={await_line(process, log, r'http://[^ ]+/v1', START_SECONDS)}")
        yield found


def _measured(folder: Path, run: str, endpoints: list[str]) -> Iterator[dict[str, Any]]:
    """The claim on speed in each test case of one run."""
    cases = folder / "cases.jsonl"
    lines = (
        {"name": f"case-{place}", "line": f"line {place} ", "structure": "structured"}
        for place in range(CASES)
    )
    cases.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "spectap", "measure", *endpoints]
    command += ["--cases", str(cases), "--output-tokens", str(TOKENS)]
    environment = os.environ | {"RUN_ID": run, "RESULTS_DIR": str(folder)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"measure ended with status {ended.returncode}:\n{ended.stderr}")
    summary = json.loads((folder / run / "summary.json").read_text(encoding="utf-8"))
    for case in summary["cases"]:
        comparison = case["cells"][1]["comparison"]
        if comparison["speed"] is None:
            sys.exit(comparison["verdict"]["sentence"])
        yield comparison["speed"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4, help="of ten test cases each")
    parser.add_argument("--speed", type=float, default=20, help="the endpoints', by the article's")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
