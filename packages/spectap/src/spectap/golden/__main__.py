"""``python -m spectap.golden``: serves one golden endpoint until a signal ends it.

Clients must send the key in VLLM_API_KEY, if it is set. SIGHUP restarts the server.
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import signal
import sys
from pathlib import Path
from typing import Final

from spectap.golden.schedule import Decoding, Linear
from spectap.golden.server import MAX_MODEL_LEN, Acceptance, GoldenEndpoint, speculative
from spectap.names import Engine

_OPTIONS: Final = (
    ("engine", Engine, Engine.V1, "whose counters /metrics shows"),
    ("port", int, 0, "0 takes a free one"),
    ("model", str, "Qwen/Qwen3-32B", "the name that it serves"),
    ("drafts", int, 0, "drafts that a step verifies; none is plain decoding"),
    ("batch", int, None, "sequences decoded together; by default all"),
    ("max-model-len", int, MAX_MODEL_LEN, "in tokens"),
    ("speed", float, 1.0, "how much faster than real"),
    ("token-cost", float, 0.0, "what a further token adds to a pass, as a share"),
    ("token-seconds", float, Decoding.token_seconds, "length of a pass over one token"),
    ("draft-cost", float, Decoding.draft_cost, "length of a draft's pass, as a share"),
    ("acceptance", Path, None, 'JSON: what a prompt contains -> acceptance, {"counting": 0.97}'),
    ("launch", int, 1, "how often it was launched, this time included"),
    ("launch-error", float, 0.0, "standard deviation of the logarithm of a launch's times"),
    ("otherwise", float, Acceptance.otherwise, "acceptance of other prompts"),
)
"""Name, type, default and meaning."""


async def _serve() -> None:
    parser = argparse.ArgumentParser(prog="spectap.golden", description=__doc__)
    for name, kind, default, meaning in _OPTIONS:
        parser.add_argument(f"--{name}", type=kind, default=default, help=meaning)
    parser.add_argument("--counts-drafts", action="store_true", help="V1's counters of drafts, too")
    arguments = parser.parse_args()
    launch = arguments.launch
    # A new process of the same port and options, like a new pod.
    again = [sys.executable, "-m", "spectap.golden", *sys.argv[1:], f"--launch={launch + 1}"]
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, os.execv, again[0], again)
    # Each launch of each variant has a level of its own, the same in each rehearsal.
    level = arguments.launch_error * random.Random(f"{arguments.drafts}/{launch}").gauss(0, 1)
    decoding = Decoding(
        drafts=arguments.drafts,
        draft_cost=arguments.draft_cost,
        token_seconds=arguments.token_seconds,
        speed=arguments.speed * math.exp(level),
        cost=Linear(arguments.token_cost),
    )
    by_text = json.loads(arguments.acceptance.read_bytes()) if arguments.acceptance else {}
    endpoint = GoldenEndpoint(
        speculative(decoding, Acceptance(by_text, arguments.otherwise)),
        arguments.model,
        engine=arguments.engine,
        drafts=decoding.drafts if arguments.counts_drafts else 0,
        batch=arguments.batch,
        slowdown=decoding.slowdown,
        max_model_len=arguments.max_model_len,
        api_key=os.environ.get("VLLM_API_KEY"),
    )
    await endpoint.start(arguments.port)
    print(endpoint.url, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await endpoint.stop()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
