"""A vLLM that compiles at its first start, played.

usage: first_starts.py ROOT PORT MODEL GATES GRAPH...
A graph that is not in the cache is compiled as soon as a file of its name is in GATES.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final

SWITCH: Final = "VLLM_NEURON_DISABLE_WARMUP_COMPILE"


def compile_graph(root: Path, graph: str, gate: Path) -> None:
    """Leaves a graph in the cache below ``root``, unless it is there; ends where it may not.

    It is finished once ``gate`` exists. What is left of a compile that is ended half-way is no
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
    while not gate.exists():
        time.sleep(0.05)
    (folder / f"graph_{graph}.neff").write_text(f"machine code of {graph}")
    (folder / ".artifact_metadata_v0.json").write_text(json.dumps({"cache_key": graph}))
    (folder / ".compilation_complete").write_text("completed\n")
    print(f"compiled {graph}", flush=True)


class Handler(BaseHTTPRequestHandler):
    model = ""

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/health" else 404)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = os.environ.get("VLLM_API_KEY")
        if key and self.headers["Authorization"] != f"Bearer {key}":
            self._answer(401)
        else:
            known = self.path == "/v1/completions" and request["model"] == self.model
            self._answer(200 if known else 404)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(root: str, port: str, model: str, gates: str, *graphs: str) -> None:
    """Compiles what is not in the cache, then serves."""
    for graph in graphs:
        compile_graph(Path(root), graph, Path(gates) / graph)
    Handler.model = model
    HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
