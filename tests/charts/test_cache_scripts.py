"""The cache of a first start: the real scripts and the AWS CLI, against an embedded S3."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from tests.charts.conftest import BUCKET, SCRIPTS, complete, keys, run, running

KEY: Final = "compiled/key/"
MARKER: Final = f"{KEY}_COMPLETE"
CHECKPOINT: Final = "models/example/target/1/"
MODEL: Final = "example/target"
GRAPHS: Final = "vllm/neuron/compile_cache"
CACHE: Final = {
    f"{GRAPHS}/one/.artifact_metadata_v0.json",
    f"{GRAPHS}/one/.compilation_complete",
    f"{GRAPHS}/one/graph.hlo",
    f"{GRAPHS}/one/graph_one.neff",
    f"{GRAPHS}/nki/one.json",
    "nki/one.colz",
}
STAYS: Final = (
    f"{GRAPHS}/one/.cache_accessed",
    f"{GRAPHS}/.one.compilation_metadata",
    f"{GRAPHS}/.one.compilation_metadata.lock",
    f"{GRAPHS}/nki/one.json.tmp.1",
    f"{GRAPHS}/one.trash.1/graph.hlo",
)


class Handler(BaseHTTPRequestHandler):
    """Answers as vLLM does that asks for the key ``sesame``."""

    def do_GET(self) -> None:
        self._answer(self.path == "/health")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_served = self.path == "/v1/completions" and request["model"] == MODEL
        self._answer(is_served and self.headers["Authorization"] == "Bearer sesame")

    def _answer(self, is_well: bool) -> None:
        self.send_response(200 if is_well else 404)
        self.end_headers()


class Pod:
    """Runs the scripts of a pod, with a disk of its own."""

    def __init__(
        self, name: str, folder: Path, environment: dict[str, str], port: int, stack: ExitStack
    ) -> None:
        self.name, self.folder, self._port, self._stack = name, folder / name, port, stack
        self.artifact, self.notes = self.folder / "artifact", self.folder / "notes"
        self.artifact.mkdir(parents=True)
        self._fault, key = self.folder / "fault", self.folder / "key"
        key.write_text("sesame\n")
        variables = {"POD_UID": name, "HOME": str(self.folder), "KEY_FILE": str(key)}
        # Of a driver: vllm-neuron would fail on it.
        self.environment = environment | variables | {"NEURON_RT_VISIBLE_CORES": "32-63"}

    @property
    def is_ready(self) -> bool:
        """What the probe of the container ``keep-cache`` asks."""
        return (self.notes / "settled").exists()

    def fetch(self, status: int = 0) -> str:
        words = (KEY, str(self.artifact), str(self.notes), CHECKPOINT)
        return run(self.environment, "fetch-cache.sh", *words, status=status).stdout

    def compile(self) -> None:
        """Leaves what vLLM does: files of the same size as another pod's, with other content."""
        for name in (*CACHE, *STAYS):
            (self.artifact / name).parent.mkdir(parents=True, exist_ok=True)
            (self.artifact / name).write_text(self.name)

    def serve(self) -> str:
        shown = "echo switch: ${SWITCH-off}, cores: ${NEURON_RT_VISIBLE_CORES-any}"
        words = (str(self.notes), "SWITCH=on", "bash", "-c", shown)
        return run(self.environment, "serve-cached.sh", *words).stdout

    def keep(self, model: str = MODEL) -> subprocess.Popen[str]:
        words = (KEY, self.artifact, self.notes, str(self._port), model)
        process = subprocess.Popen(
            ["bash", SCRIPTS / "keep-cache.sh", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._stack.enter_context(process)
        self._stack.callback(end, process)
        return process

    def disturb(self, words: str, action: str) -> None:
        """Until ``mend``, calls of the AWS CLI that begin with ``words`` do ``action`` first."""
        shim, path = self.folder / "bin" / "aws", self.environment["PATH"]
        shim.parent.mkdir()
        self._fault.touch()
        condition = f'[[ -e {self._fault} && "$*" == "{words}"* ]]'
        shim.write_text(
            f'#!/usr/bin/env bash\nexport PATH="{path}"\nif {condition}; then\n'
            f'echo "{words}: disturbed" >&2\n{action}\nfi\nexec aws "$@"\n'
        )
        shim.chmod(0o755)
        self.environment["PATH"] = f"{shim.parent}:{path}"

    def hold_marker(self) -> None:
        held = f"while [[ -e {self._fault} ]]; do sleep 0.1; done"
        self.disturb("s3api put-object", held)

    def mend(self) -> None:
        self._fault.unlink()

    def cache(self) -> dict[str, str]:
        files = (path for path in self.artifact.rglob("*") if path.is_file())
        return {str(path.relative_to(self.artifact)): path.read_text() for path in files}


Pods = Callable[[str], Pod]


@pytest.fixture
def pods(environment: dict[str, str], store: Any, tmp_path: Path) -> Iterator[Pods]:
    """Makes pods, whose checkpoint is in the bucket. At the end their scripts are killed."""
    complete(store, CHECKPOINT)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, ExitStack() as stack:
        Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        yield lambda name: Pod(name, tmp_path, environment, server.server_port, stack)


def end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def await_words(process: subprocess.Popen[str], words: str) -> None:
    """Reads what a script says until it says ``words``."""
    assert process.stdout is not None
    assert any(words in line for line in process.stdout), f"it never said {words!r}"


def versions(store: Any) -> dict[str, str]:
    return {key: store.head_object(Bucket=BUCKET, Key=key)["ETag"] for key in keys(store)}


def test_a_cache_is_complete_before_its_pod_is_ready_and_is_served_as_it_was_made(
    store: Any, pods: Pods
) -> None:
    first = pods("first")
    assert "is not complete: vLLM compiles" in first.fetch()
    assert "\nswitch: off, cores: any\n" in first.serve()
    first.compile()
    first.hold_marker()
    keeper = first.keep()
    await_words(keeper, "disturbed")
    assert not first.is_ready
    assert MARKER not in keys(store)
    first.mend()
    await_words(keeper, f"s3://{BUCKET}/{KEY} is complete")
    assert first.is_ready
    assert set(keys(store)) == {
        *(f"{KEY}first/{name}" for name in CACHE),
        *(MARKER, f"{CHECKPOINT}_COMPLETE"),
    }

    later, before = pods("later"), versions(store)
    assert "the complete cache is in" in later.fetch()
    assert later.cache() == dict.fromkeys(CACHE, "first")
    assert "\nswitch: on, cores: any\n" in later.serve()
    await_words(later.keep(), "the cache was complete: nothing to keep")
    assert later.is_ready
    assert versions(store) == before


def test_what_a_killed_first_start_leaves_is_never_served(store: Any, pods: Pods) -> None:
    killed, after = pods("killed"), pods("after")
    killed.fetch()
    killed.compile()
    # All graphs without one file, which is how an upload that was under way looks.
    killed.disturb("s3 sync", 'aws "$@" --exclude "*.neff"; kill -KILL $PPID; exit 1')
    assert killed.keep().wait(60) < 0
    assert f"{KEY}killed/{GRAPHS}/one/.compilation_complete" in keys(store)
    assert "is not complete: vLLM compiles" in after.fetch()
    assert after.cache() == {}
    assert "\nswitch: off, cores: any\n" in after.serve()
    after.compile()
    await_words(after.keep(), "is complete")
    killed.mend()
    killed.fetch()
    # Nor what it left on its own disk.
    assert killed.cache() == dict.fromkeys(CACHE, "after")


def test_of_two_that_fill_one_cache_a_later_start_gets_one(pods: Pods) -> None:
    """Two compiles of a graph differ: in a checksum, at least, and in the time."""
    slow, rival = pods("alpha"), pods("gamma")
    for pod in (slow, rival):
        pod.fetch()
        pod.compile()
    slow.hold_marker()
    keeper = slow.keep()
    await_words(keeper, "disturbed")
    await_words(rival.keep(), "is complete")
    later = pods("later")
    later.fetch()
    assert later.cache() == dict.fromkeys(CACHE, "gamma")
    slow.mend()
    await_words(keeper, "is complete")
    later.fetch()
    assert later.cache() == dict.fromkeys(CACHE, "alpha")


def test_a_pod_is_ready_though_the_bucket_refuses(store: Any, pods: Pods) -> None:
    """What is measured does not need it. The cache is kept as soon as it takes it."""
    pod = pods("patient")
    pod.fetch()
    pod.compile()
    pod.disturb("s3 sync", "exit 1")
    keeper = pod.keep()
    await_words(keeper, "disturbed")
    await_words(keeper, "disturbed")
    assert pod.is_ready
    assert MARKER not in keys(store)
    pod.mend()
    await_words(keeper, f"s3://{BUCKET}/{KEY} is complete")


def test_a_server_that_does_not_answer_or_leaves_no_graph_completes_no_cache(
    store: Any, pods: Pods
) -> None:
    silent = pods("silent")
    silent.fetch()
    silent.compile()
    keeper = silent.keep(model="another")
    await_words(keeper, "vLLM is healthy, but does not answer a request")
    assert not silent.is_ready
    keeper.terminate()
    assert keeper.wait(60) == 0
    empty = pods("empty")
    empty.fetch()
    await_words(empty.keep(), "vLLM answers, but left no graph")
    assert keys(store) == [f"{CHECKPOINT}_COMPLETE"]


def test_nothing_is_compiled_before_the_bucket_was_asked_and_has_the_checkpoints(
    store: Any, pods: Pods
) -> None:
    pod = pods("asking")
    draft = "models/example/draft/2/"
    words = (KEY, str(pod.artifact), str(pod.notes), CHECKPOINT, draft)
    with running(pod.environment, "fetch-cache.sh", *words) as fetching:
        await_words(fetching, f"waiting for s3://{BUCKET}/{draft}")
        complete(store, draft)
        assert fetching.wait(60) == 0
    pod.disturb(f"s3api list-objects-v2 --bucket {BUCKET} --prefix {MARKER}", "exit 1")
    assert "compiles" not in pod.fetch(status=2)
