"""``python -m rehearsal.account.cache COMMAND...``: a first start, which compiles and then serves.

The cache is modelled on ``vllm_neuron/compile/cache.py`` and ``nki/nki_cache.py`` of version 0.21:
a folder for each graph, whose sentinel is written last, with a lock beside it; a record and a
binary for each kernel.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rehearsal.account.compiler import SECONDS

SWITCH: Final = "VLLM_NEURON_DISABLE_WARMUP_COMPILE"
ROOT: Final = "VLLM_CACHE_ROOT"
_GRAPH: Final = "decode"
_POLL_SECONDS: Final = 0.05


def compile_graph(root: Path, graph: str, until: Callable[[], bool]) -> None:
    """Leaves a graph in the cache below ``root``, unless it is there; ends where it may not.

    It is finished once ``until`` says so. What is left of a compile that is ended half-way is no
    entry.
    """
    cache = root / "neuron" / "compile_cache"
    folder = cache / graph
    if (folder / ".compilation_complete").exists():
        (folder / ".cache_accessed").write_text(str(time.time()))
        print(f"hit {graph}", flush=True)
        return
    if os.environ.get(SWITCH):
        sys.exit(f"{SWITCH}: local compile cache miss for key {graph}")
    print(f"compiling {graph}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (cache / f".{graph}.compilation_metadata").write_text(f"pid:{os.getpid()}\n")
    (cache / f".{graph}.compilation_metadata.lock").touch()
    (folder / "graph.hlo").write_text(graph)
    kernels, records = cache.parents[2] / "nki", cache / "nki"
    records.mkdir(exist_ok=True)
    (kernels / f"{graph}.colz").write_text(f"kernel of {graph}")
    (records / f"{graph}.json.tmp.1").touch()
    (records / f"{graph}.lock").touch()
    (records / f"{graph}.json").write_text(f"/var/tmp/nki-intermediate-cache/{graph}.colz")
    while not until():
        time.sleep(_POLL_SECONDS)
    (folder / f"graph_{graph}.neff").write_text(f"machine code of {graph}")
    (folder / ".artifact_metadata_v0.json").write_text(json.dumps({"cache_key": graph}))
    (folder / ".compilation_complete").write_text("completed\n")
    print(f"compiled {graph}", flush=True)


def main(command: list[str]) -> None:
    """Compiles what is not in the cache, which takes as long as in a Job; becomes ``command``."""
    over = time.monotonic() + SECONDS
    compile_graph(Path(os.environ[ROOT]), _GRAPH, until=lambda: time.monotonic() >= over)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
