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
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rehearsal.account.cache import SWITCH, compile_graph
from rehearsal.process.ports import free_port

MODEL: Final = "example/target"
SCRIPTS: Final = Path(__file__).parents[2] / "charts" / "scripts"
GRAPHS: Final = "vllm/neuron/compile_cache"


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
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(f"asked for {asked['max_tokens']} tokens", flush=True)
        known = self.path == "/v1/completions" and asked["model"] == self.model
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
