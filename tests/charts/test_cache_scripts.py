"""The cache of a first start: the real scripts and the AWS CLI, against an embedded S3."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.conftest import BUCKET, SCRIPTS, complete, keys
from tests.charts.first_starts import SWITCH
from tests.run_make import free_port

KEY: Final = "compiled/key/"
GRAPHS: Final = "vllm/neuron/compile_cache"
LOCK: Final = f"{KEY}_FILLING"
MARKER: Final = f"{KEY}_COMPLETE"
CHECKPOINT: Final = "models/example/target/1/"
MODEL: Final = "example/target"
SECONDS: Final = 90.0
ENTRY: Final = (".artifact_metadata_v0.json", ".compilation_complete", "graph.hlo")

Process = subprocess.Popen[str]


class Pod:
    """Runs the scripts of a pod, each in a process group of its own, with a disk of its own."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.artifact = folder / name, folder / name / "artifact"
        self.notes, self.gates = self.folder / "notes", self.folder / "gates"
        self.gates.mkdir(parents=True)
        # Patience with a dead holder: long enough for a live one to be slow in the tests.
        variables = {"POD": name, "HOME": str(self.folder), "PATIENCE": "1000"}
        self.environment = environment | variables
        self._port = str(free_port())
        self._processes: list[Process] = []

    @property
    def is_ready(self) -> bool:
        """What the probe of the container ``keep-cache`` asks."""
        return (self.notes / "settled").exists()

    def fetch(self, prefix: str, *checkpoints: str) -> Process:
        return self._start("fetch-cache.sh", prefix, self.artifact, self.notes, *checkpoints)

    def keep(self, prefix: str, model: str = MODEL) -> Process:
        return self._start("keep-cache.sh", prefix, self.artifact, self.notes, self._port, model)

    def serve(self, *graphs: str) -> Process:
        server = (sys.executable, "-m", "tests.charts.first_starts")
        words = (str(self.artifact / "vllm"), self._port, MODEL, str(self.gates), *graphs)
        return self._start("serve-cached.sh", self.notes, f"{SWITCH}=1", *server, *words)

    def compiles(self, graph: str) -> None:
        """From now on the graph's compile can end."""
        (self.gates / graph).touch()

    def _start(self, script: str, *words: str | Path) -> Process:
        process = subprocess.Popen(
            ["bash", str(SCRIPTS / script), *map(str, words)],
            env=self.environment,
            cwd=SCRIPTS.parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            kill(process)
            process.wait()
            if process.stdout:
                process.stdout.close()


def kill(process: Process) -> None:
    """A script and all that it runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


Pods = Callable[[str], Pod]


def entry(graph: str) -> set[str]:
    """What the bucket has of a finished graph and its kernel."""
    files = {f"{KEY}{GRAPHS}/{graph}/{file}" for file in (*ENTRY, f"graph_{graph}.neff")}
    return files | {f"{KEY}{GRAPHS}/nki/{graph}.json", f"{KEY}nki/{graph}.colz"}


@pytest.fixture
def pods(environment: dict[str, str], store: Any, tmp_path: Path) -> Iterator[Pods]:
    """Makes pods, whose checkpoints are in the bucket. At the end they are killed."""
    complete(store, CHECKPOINT)
    with ExitStack() as stack:

        def make(name: str) -> Pod:
            pod = Pod(name, tmp_path, environment)
            stack.callback(pod.close)
            return pod

        yield make


def test_starts_share_a_cache(store: Any, pods: Pods, tmp_path: Path) -> None:
    """Two start at once, the first is killed, the second takes over, a third finds all."""
    draft = "models/example/draft/2/"
    started = {name: pods(name) for name in ("left", "right")}
    fetching = {name: pod.fetch(KEY, CHECKPOINT, draft) for name, pod in started.items()}
    for process in fetching.values():
        await_words(process, f"waiting for s3://{BUCKET}/{draft}")
    assert LOCK not in keys(store)
    complete(store, draft)
    until(lambda: any(process.poll() is not None for process in fetching.values()))
    (holder,) = (name for name, process in fetching.items() if process.poll() is not None)
    (waiter,) = started.keys() - {holder}
    await_words(fetching[waiter], f"waiting for s3://{BUCKET}/{KEY}, which pod {holder} fills")

    dead, second = started[holder], started[waiter]
    keeper, server = dead.keep(KEY), dead.serve("one", "two")
    dead.compiles("one")
    until(lambda: entry("one") <= set(keys(store)))
    await_words(server, "compiling two")
    # What is not finished, and what says who compiles it, stay here.
    assert not [key for key in keys(store) if "/two/" in key or "lock" in key or "metadata/" in key]
    for process in (keeper, server):
        kill(process)
    # An upload that was under way.
    store.put_object(Bucket=BUCKET, Key=f"{KEY}{GRAPHS}/two/graph.hlo", Body=b"half of it")
    kill(fetching[waiter])
    second.environment["PATIENCE"] = "2"
    fetching[waiter] = second.fetch(KEY, CHECKPOINT)
    await_words(fetching[waiter], "1 finished graphs are in")
    assert_ends(fetching[waiter])
    assert not (second.artifact / GRAPHS / "two").exists()
    # What has lost the lock uploads nothing more.
    before = versions(store)
    keeper = dead.keep(KEY)
    await_words(keeper, f"another pod has taken {LOCK}: this one uploads nothing more")
    keeper.terminate()
    assert keeper.wait(SECONDS) == 0
    assert versions(store) == before

    server = second.serve("one", "two")
    await_words(server, "hit one")
    second.compiles("two")
    await_words(server, "compiled two")
    fault = Fault(tmp_path, second)
    fault.set("refused", "s3 sync")
    keeper = second.keep(KEY)
    await_words(keeper, "refused: s3 sync")
    # What is measured does not need the bucket.
    until(lambda: second.is_ready)
    fault.set("refused", f"s3 cp {second.artifact}")
    await_words(keeper, "refused: s3 cp")
    assert not {f"{KEY}{GRAPHS}/two/.compilation_complete", MARKER} & set(keys(store))
    fault.set("forgotten", "s3api put-object")
    await_words(keeper, "forgotten: s3api put-object")
    fault.clear()
    await_words(keeper, f"s3://{BUCKET}/{KEY} is complete")
    marked = {LOCK, MARKER, f"{CHECKPOINT}_COMPLETE", f"{draft}_COMPLETE"}
    assert set(keys(store)) == entry("one") | entry("two") | marked
    assert store.head_object(Bucket=BUCKET, Key=LOCK)["ContentLength"] == 0

    third, before = pods("third"), versions(store)
    assert_ends(third.fetch(KEY, CHECKPOINT))
    await_words(third.keep(KEY), "the cache was complete: nothing to keep")
    server = third.serve("one", "two")
    await_words(server, "hit two")
    assert versions(store) == before
    # A graph that is not there ends a start that should compile nothing.
    ended = third.serve("one", "three")
    await_words(ended, "local compile cache miss for key three")
    assert ended.wait(SECONDS) == 1


def test_a_pod_is_ready_once_its_cache_is_complete(store: Any, pods: Pods, tmp_path: Path) -> None:
    """Nothing is uploaded beside what is measured, nor lost if the nodes are ended after it.

    Its server asks for a key. One that does not answer, or leaves no graph, completes no cache.
    """
    pod = pods("patient")
    (tmp_path / "key").write_text("sesame\n")
    pod.environment |= {"VLLM_API_KEY": "sesame", "KEY_FILE": str(tmp_path / "key")}
    assert_ends(pod.fetch(KEY, CHECKPOINT))
    server = pod.serve("one")
    pod.compiles("one")
    await_words(server, "compiled one")
    keeper = pod.keep(KEY, model="another")
    await_words(keeper, "vLLM is healthy, but does not answer a request")
    keeper.terminate()
    assert keeper.wait(SECONDS) == 0
    assert MARKER not in keys(store)
    kill(server)

    empty = pods("empty")
    assert_ends(empty.fetch("compiled/other/", CHECKPOINT))
    empty.serve()
    await_words(empty.keep("compiled/other/"), "vLLM answers, but left no graph")
    assert "compiled/other/_COMPLETE" not in keys(store)

    assert_ends(pod.fetch(KEY, CHECKPOINT))
    pod.serve("one")
    fault = Fault(tmp_path, pod)
    fault.set("held", f"s3api put-object --bucket {BUCKET} --key {MARKER}")
    keeper = pod.keep(KEY)
    await_words(keeper, "held: s3api put-object")
    assert not pod.is_ready
    fault.clear()
    await_words(keeper, f"s3://{BUCKET}/{KEY} is complete")
    assert pod.is_ready


class Fault:
    """An AWS CLI in a pod's path whose commands fail if they begin as it is told.

    They are ``refused``; or ``forgotten``: done, but their answer gets lost; or ``held`` until the
    fault is cleared.
    """

    def __init__(self, folder: Path, pod: Pod) -> None:
        shim, self._fault = folder / "bin" / "aws", folder / "fault"
        shim.parent.mkdir()
        path = pod.environment["PATH"]
        shim.write_text(
            "#!/usr/bin/env bash\n"
            f'export PATH="{path}"\n'
            f'[[ -e {self._fault} ]] || exec aws "$@"\n'
            f"read -r kind words <{self._fault}\n"
            '[[ $* == "$words"* ]] || exec aws "$@"\n'
            "if [[ $kind == held ]]; then\n"
            '  echo "$kind: $words" >&2\n'
            f"  while [[ -e {self._fault} ]]; do sleep 0.1; done\n"
            '  exec aws "$@"\n'
            "fi\n"
            '[[ $kind != forgotten ]] || aws "$@" >/dev/null\n'
            'echo "$kind: $words" >&2\n'
            "exit 1\n"
        )
        shim.chmod(0o755)
        pod.environment["PATH"] = f"{shim.parent}:{path}"

    def set(self, kind: str, words: str) -> None:
        written = self._fault.with_suffix(".new")
        written.write_text(f"{kind} {words}\n")
        written.rename(self._fault)

    def clear(self) -> None:
        self._fault.unlink()


def await_words(process: Process, words: str) -> None:
    """Reads what a script says until it says ``words``."""
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}, but:\n{''.join(lines)}")


def assert_ends(process: Process) -> None:
    assert process.stdout is not None
    output = process.stdout.read()
    assert process.wait(SECONDS) == 0, output


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def versions(store: Any) -> dict[str, str]:
    """The ETag of every object."""
    return {key: store.head_object(Bucket=BUCKET, Key=key)["ETag"] for key in keys(store)}
