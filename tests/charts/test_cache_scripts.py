"""The cache of a first start: the real scripts and the AWS CLI, against an embedded S3."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.conftest import BUCKET, keys
from tests.charts.first_starts import GRAPHS, Pod

KEY: Final = "compiled/key/"
LOCK: Final = f"{KEY}_FILLING"
MARKER: Final = f"{KEY}_COMPLETE"
CHECKPOINT: Final = "models/example/target/1/"
SECONDS: Final = 90.0
ENTRY: Final = (".artifact_metadata_v0.json", ".compilation_complete", "graph.hlo")

Pods = Callable[[str], Pod]


def entry(graph: str) -> set[str]:
    """What the bucket has of a finished graph and its kernel."""
    files = {f"{KEY}{GRAPHS}/{graph}/{file}" for file in (*ENTRY, f"graph_{graph}.neff")}
    return files | {f"{KEY}{GRAPHS}/nki/{graph}.json", f"{KEY}nki/{graph}.colz"}


@pytest.fixture
def pods(environment: dict[str, str], store: Any, tmp_path: Path) -> Iterator[Pods]:
    """Makes pods, whose checkpoints are in the bucket. At the end they are killed."""
    store.put_object(Bucket=BUCKET, Key=f"{CHECKPOINT}_COMPLETE", Body=b"")
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(Pod(name, tmp_path, environment))


def test_the_first_start_fills_the_cache_and_the_second_finds_all(store: Any, pods: Pods) -> None:
    first, second = pods("first"), pods("second")
    assert_ends(first.fetch(KEY, CHECKPOINT))
    waiting = second.fetch(KEY, CHECKPOINT)
    said(waiting, f"waiting for s3://{BUCKET}/{KEY}, which pod first fills")
    keeper, server = first.keep(KEY), first.serve("one", "two")
    first.compiles("one")
    until(store, lambda found: entry("one") <= found)
    said(server, "compiling two")
    # What is not finished, and what says who compiles it, stay here.
    assert not [key for key in keys(store) if "/two/" in key or "lock" in key or "metadata/" in key]
    assert MARKER not in keys(store)
    first.compiles("two")
    said(keeper, f"s3://{BUCKET}/{KEY} is complete")
    said(server, "asked for 16 tokens")
    whole = entry("one") | entry("two") | {LOCK, MARKER, f"{CHECKPOINT}_COMPLETE"}
    assert set(keys(store)) == whole
    assert_released(store)

    assert_ends(waiting)
    before = versions(store)
    idle = second.keep(KEY)
    said(idle, "the cache was complete: nothing to keep")
    server = second.serve("one", "two")
    said(server, "hit one")
    said(server, "hit two")
    assert versions(store) == before
    # A graph that is not there ends a start that should compile nothing.
    ended = second.serve("one", "three")
    said(ended, "local compile cache miss for key three")
    assert ended.wait(SECONDS) == 1
    idle.terminate()
    assert idle.wait(SECONDS) == 0


def test_of_two_that_start_at_once_one_fills_the_cache(store: Any, pods: Pods) -> None:
    started = [pods(name).fetch(KEY, CHECKPOINT) for name in ("left", "right")]
    until(store, lambda found: LOCK in found)
    deadline = time.monotonic() + SECONDS
    while not (ended := [p for p in started if p.poll() is not None]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(ended) == 1
    (other,) = (process for process in started if process not in ended)
    name = ("left", "right")[started.index(ended[0])]
    said(other, f", which pod {name} fills")
    assert other.poll() is None


def test_what_a_killed_start_had_compiled_is_not_compiled_again(store: Any, pods: Pods) -> None:
    dead, next_ = pods("dead"), pods("next")
    assert_ends(dead.fetch(KEY, CHECKPOINT))
    keeper, server = dead.keep(KEY), dead.serve("one", "two")
    dead.compiles("one")
    until(store, lambda found: entry("one") <= found)
    for process in (keeper, server):
        dead.signal(process, signal.SIGKILL)
    # An upload that was under way.
    store.put_object(Bucket=BUCKET, Key=f"{KEY}{GRAPHS}/two/graph.hlo", Body=b"half of it")

    next_.environment["PATIENCE"] = "2"
    fetching = next_.fetch(KEY, CHECKPOINT)
    said(fetching, f"waiting for s3://{BUCKET}/{KEY}, which pod dead fills")
    said(fetching, "1 finished graphs are in")
    assert_ends(fetching)
    assert not (next_.artifact / GRAPHS / "two").exists()
    keeper, server = next_.keep(KEY), next_.serve("one", "two")
    said(server, "hit one")
    said(server, "compiling two")
    assert MARKER not in keys(store)
    next_.compiles("two")
    said(keeper, f"s3://{BUCKET}/{KEY} is complete")
    assert entry("one") | entry("two") | {MARKER} <= set(keys(store))


def test_a_holder_that_lost_its_lock_uploads_nothing_more(store: Any, pods: Pods) -> None:
    slow, other = pods("slow"), pods("other")
    assert_ends(slow.fetch(KEY, CHECKPOINT))
    server = slow.serve("one")
    other.environment["PATIENCE"] = "2"
    assert_ends(other.fetch(KEY, CHECKPOINT))
    before = versions(store)
    keeper = slow.keep(KEY)
    slow.compiles("one")
    said(server, "compiled one")
    said(keeper, f"another pod has taken {LOCK}: this one uploads nothing more")
    assert versions(store) == before
    keeper.terminate()
    assert keeper.wait(SECONDS) == 0
    assert versions(store) == before


def test_a_pod_that_is_told_to_end_leaves_the_lock_to_the_next(store: Any, pods: Pods) -> None:
    first, second = pods("first"), pods("second")
    assert_ends(first.fetch(KEY, CHECKPOINT))
    keeper = first.keep(KEY)
    said(keeper, f"uploads to s3://{BUCKET}/{KEY}")
    keeper.terminate()
    assert keeper.wait(SECONDS) == 0
    assert_released(store)
    assert_ends(second.fetch(KEY, CHECKPOINT))
    assert store.get_object(Bucket=BUCKET, Key=LOCK)["Body"].read().startswith(b"second ")


def test_keeps_on_though_the_bucket_refuses_and_an_answer_is_lost(
    store: Any, pods: Pods, tmp_path: Path
) -> None:
    pod = pods("stubborn")
    assert_ends(pod.fetch(KEY, CHECKPOINT))
    server = pod.serve("one")
    pod.compiles("one")
    said(server, "compiled one")
    broken = Broken(tmp_path, pod)
    broken.refuse("s3 sync")
    keeper = pod.keep(KEY)
    said(keeper, "refused: s3 sync")
    broken.refuse(f"s3 cp {pod.artifact}")
    said(keeper, "refused: s3 cp")
    # What is measured does not need the bucket.
    until(store, lambda _: pod.is_ready)
    # A graph without its sentinel, and so without a marker.
    found = set(keys(store))
    assert f"{KEY}{GRAPHS}/one/graph.hlo" in found
    assert not {f"{KEY}{GRAPHS}/one/.compilation_complete", MARKER} & found
    broken.forget("s3api put-object")
    said(keeper, "forgotten: s3api put-object")
    broken.mend()
    said(keeper, f"s3://{BUCKET}/{KEY} is complete")
    assert entry("one") | {MARKER} <= set(keys(store))


def test_a_pod_is_ready_once_its_cache_is_complete(store: Any, pods: Pods, tmp_path: Path) -> None:
    """Nothing is uploaded beside what is measured, nor lost if the nodes are ended after it."""
    assert store
    pod = pods("patient")
    assert_ends(pod.fetch(KEY, CHECKPOINT))
    pod.serve("one")
    pod.compiles("one")
    broken = Broken(tmp_path, pod)
    broken.hold(f"s3api put-object --bucket {BUCKET} --key {MARKER}")
    keeper = pod.keep(KEY)
    said(keeper, "held: s3api put-object")
    assert not pod.is_ready
    broken.mend()
    said(keeper, f"s3://{BUCKET}/{KEY} is complete")
    assert pod.is_ready


def test_a_server_that_does_not_answer_completes_no_cache(store: Any, pods: Pods) -> None:
    pod = pods("mute")
    assert_ends(pod.fetch(KEY, CHECKPOINT))
    server = pod.serve("one")
    pod.compiles("one")
    said(server, "compiled one")
    keeper = pod.keep(KEY, model="another")
    said(keeper, "vLLM is healthy, but does not answer a request")
    assert MARKER not in keys(store)


def test_a_server_that_leaves_no_graph_completes_no_cache(store: Any, pods: Pods) -> None:
    pod = pods("elsewhere")
    assert_ends(pod.fetch(KEY, CHECKPOINT))
    pod.serve()
    said(pod.keep(KEY), "vLLM answers, but left no graph")
    assert MARKER not in keys(store)
    assert_released(store)


def test_waits_for_the_checkpoints_and_for_a_bucket_that_refuses(store: Any, pods: Pods) -> None:
    assert store
    pod = pods("early")
    fetching = pod.fetch(KEY, CHECKPOINT, "models/example/draft/2/")
    said(fetching, f"waiting for s3://{BUCKET}/models/example/draft/2/")
    assert LOCK not in keys(store)
    pod.environment["BUCKET"] = "nobody-s"
    fetching = pod.fetch(KEY)
    said(fetching, f"waiting for s3://nobody-s/{KEY}")


class Broken:
    """An AWS CLI in a pod's path that fails as it is told to."""

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

    def refuse(self, command: str) -> None:
        """Commands that begin so fail, and do nothing."""
        self._write(f"refused {command}")

    def forget(self, command: str) -> None:
        """Commands that begin so are done, but their answer gets lost."""
        self._write(f"forgotten {command}")

    def hold(self, command: str) -> None:
        """Commands that begin so wait until all works again."""
        self._write(f"held {command}")

    def mend(self) -> None:
        """All works again."""
        self._fault.unlink()

    def _write(self, fault: str) -> None:
        written = self._fault.with_suffix(".new")
        written.write_text(f"{fault}\n")
        written.rename(self._fault)


def said(process: subprocess.Popen[str], words: str) -> None:
    """Reads what a script says until it says ``words``."""
    heard = []
    assert process.stdout is not None
    for line in process.stdout:
        heard.append(line)
        if words in line:
            return
    raise AssertionError(f"it never said {words!r}, but:\n{''.join(heard)}")


def assert_ends(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    output = process.stdout.read()
    assert process.wait(SECONDS) == 0, output


def assert_released(store: Any) -> None:
    assert store.head_object(Bucket=BUCKET, Key=LOCK)["ContentLength"] == 0


def until(store: Any, holds: Callable[[set[str]], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds(set(keys(store))):
        assert time.monotonic() < deadline, keys(store)
        time.sleep(0.1)


def versions(store: Any) -> dict[str, str]:
    """The ETag of every object."""
    listed = store.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {entry["Key"]: entry["ETag"] for entry in listed}
