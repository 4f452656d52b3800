"""``python -m rehearsal.golden``: serves one golden endpoint until it is ended.

It asks clients for the key in VLLM_API_KEY, if there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
from pathlib import Path

from experiment.runtimes import Engine
from rehearsal.golden.cost import Linear
from rehearsal.golden.schedule import Decoding
from rehearsal.golden.server import MAX_MODEL_LEN, Acceptance, Golden, speculative


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rehearsal.golden", description=__doc__)
    parser.add_argument(
        "--engine",
        type=Engine,
        choices=tuple(Engine),
        default=Engine.V1,
        help="whose counters /metrics shows",
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="Qwen/Qwen3-32B")
    parser.add_argument("--window", type=int, default=1, help="num_speculative_tokens")
    parser.add_argument(
        "--kept", type=int, default=1, help="how many of the window no draft fills, as with NxDI"
    )
    parser.add_argument("--counts-drafts", action="store_true", help="V1's counters of drafts, too")
    parser.add_argument("--batch", type=int, help="sequences decoded together; by default all")
    parser.add_argument("--max-model-len", type=int, default=MAX_MODEL_LEN)
    parser.add_argument("--speed", type=float, default=1.0, help="how much faster than real")
    parser.add_argument(
        "--token-cost",
        type=float,
        default=0.0,
        help="what a further token adds to a pass, as a share",
    )
    parser.add_argument("--token-seconds", type=float, default=Decoding.token_seconds)
    parser.add_argument("--draft-cost", type=float, default=Decoding.draft_cost)
    parser.add_argument(
        "--acceptance",
        type=Path,
        help='JSON file: what a prompt contains -> acceptance, such as {"counting": 0.97}',
    )
    parser.add_argument("--otherwise", type=float, default=Acceptance.otherwise)
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    decoding = Decoding(
        window=arguments.window,
        undrafted=arguments.kept,
        draft_cost=arguments.draft_cost,
        token_seconds=arguments.token_seconds,
        speed=arguments.speed,
        cost=Linear(arguments.token_cost),
    )
    by_text = json.loads(arguments.acceptance.read_bytes()) if arguments.acceptance else {}
    endpoint = Golden(
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
        asyncio.run(_serve(_arguments()))
