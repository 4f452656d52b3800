"""A vLLM that compiles at its first start, played; and pods that run the scripts around it.

usage: first_starts.py ROOT PORT MODEL GATES GRAPH...
A graph that is not in the cache is compiled as soon as a file of its name is in GATES.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.made import free_port

MODEL: Final = "example/target"
SCRIPTS: Final = Path(__file__).parents[2] / "charts" / "scripts"
GRAPHS: Final = "vllm/neuron/compile_cache"
SWITCH: Final = "VLLM_NEURON_DISABLE_WARMUP_COMPILE"
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


class Pod:
    """Runs the scripts of a pod, each in a process group of its own, with a disk of its own."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.artifact = folder / name / "artifact"
        self._notes = folder / name / "notes"
        self._gates = folder / name / "gates"
        self._gates.mkdir(parents=True)
        self.environment = {
            **environment,
            "POD": name,
            "HOME": str(folder / name),
            # Of a dead holder, and long enough for a live one to be slow in the tests.
            "PATIENCE": "1000",
        }
        self._port = free_port("127.0.0.1")
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            self.signal(process, signal.SIGKILL)
            process.wait()
            if process.stdout:
                process.stdout.close()

    @property
    def is_ready(self) -> bool:
        """What the probe of the container ``keep-cache`` asks."""
        return (self._notes / "settled").exists()

    def fetch(self, prefix: str, *checkpoints: str) -> subprocess.Popen[str]:
        """The container ``fetch-cache``."""
        words = (prefix, str(self.artifact), str(self._notes), *checkpoints)
        return self._start(["bash", str(SCRIPTS / "fetch-cache.sh"), *words])

    def keep(self, prefix: str, model: str = MODEL) -> subprocess.Popen[str]:
        """The container ``keep-cache``."""
        words = (prefix, str(self.artifact), str(self._notes), str(self._port), model)
        return self._start(["bash", str(SCRIPTS / "keep-cache.sh"), *words])

    def serve(self, *graphs: str) -> subprocess.Popen[str]:
        """The container ``vllm``."""
        server = [sys.executable, "-m", "tests.charts.first_starts"]
        words = (str(self.artifact / "vllm"), str(self._port), MODEL, str(self._gates), *graphs)
        script = ["bash", str(SCRIPTS / "serve-cached.sh"), str(self._notes), f"{SWITCH}=1"]
        return self._start([*script, *server, *words])

    def compiles(self, graph: str) -> None:
        """From now on the graph's compile can end."""
        (self._gates / graph).touch()

    def signal(self, process: subprocess.Popen[str], number: signal.Signals) -> None:
        """Sends a signal to a script and all that it runs."""
        if process.poll() is None:
            os.killpg(process.pid, number)

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            env=self.environment,
            cwd=SCRIPTS.parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process


class _Handler(BaseHTTPRequestHandler):
    model = ""

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/health" else 404)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(f"asked for {request['max_tokens']} tokens", flush=True)
        known = self.path == "/v1/completions" and request["model"] == self.model
        key = os.environ.get("VLLM_API_KEY")
        if key and self.headers["Authorization"] != f"Bearer {key}":
            self._answer(401)
        else:
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
        compile_graph(Path(root), graph, until=(Path(gates) / graph).exists)
    _Handler.model = model
    HTTPServer(("127.0.0.1", int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
