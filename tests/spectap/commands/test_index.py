"""An index of a sweep from end to end: what it measures, keeps, and merges."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.cloudwatch.models import cloudwatch_backends

from spectap.aws.bucket import Bucket
from spectap.aws.stopper import Stopper
from spectap.commands import report
from spectap.ledger import read_ledger
from spectap.load.driver import Driver
from spectap.names import CONTROL
from spectap.report import results
from tests.spectap.aws.embedded import BUCKET, REGION, Aws, failure, serving
from tests.spectap.commands import processes
from tests.spectap.commands.indexes import RUN_ID, Sweep
from tests.spectap.commands.processes import Benchmark, Ended, eventually, started
from tests.spectap.standins import InProcess

ACCOUNT = "123456789012"  # moto's own
TURNS = 4
"""Two test cases in two rounds; each has two requests, as has a wave."""


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    aws = Aws()
    yield aws
    aws.stop()


@pytest.fixture
def aws(server: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with serving(server, monkeypatch):
        boto3.client("s3", region_name=REGION).create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield server


@pytest.fixture
def sweep(
    tmp_path: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch, frozen_imports: None
) -> Iterator[Sweep]:
    """The driver sends its requests from this process, which saves starting one for each turn."""
    monkeypatch.setattr(Driver, "choose", lambda _, scratch: InProcess(None, scratch))
    windows = {"Base": 1, "k3": 3, "k7": 7}
    with processes.serving(*(processes.golden(window) for window in windows.values())) as servers:
        yield Sweep(tmp_path, dict(zip(windows, servers, strict=True)), aws)


def run(benchmark: Benchmark, sweep: Sweep, variant: str, **options: Any) -> Ended:
    return benchmark("index", **sweep.environment(variant, **options))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest."""
    monkeypatch.setattr(report, "draw", lambda _: None)


def test_the_last_to_end_leaves_the_whole_report(
    benchmark: Benchmark, sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as first:
        first.setattr(report, "draw", lambda _: None)
        for variant in ("Base", "k3"):
            ended = run(benchmark, sweep, variant)
            assert ended.status == 0, ended.err
            assert f"spectap: {variant} is complete\n" in ended.out
    ended = run(benchmark, sweep, "k7")
    assert ended.status == 0, ended.err
    assert "merged: 3 of 3 variants" in ended.out

    folder = sweep.download(tmp_path / RUN_ID)
    read = results.read(folder)
    assert read.config.apart
    assert [v.baseline for v in read.config.variants] == [None, "Base", "Base"]
    assert {record.run for record in read.records} == {RUN_ID}
    found = {(cell.test_case, cell.variant) for case in read.summary.cases for cell in case.cells}
    assert found == {(case, name) for case in ("counting", "sonnets") for name in sweep.names}
    assert all(check.failures == () for check in read.checks)
    assert len(read.checks) == len(found)
    assert set(read.published.recorded) == {(case, "concurrency-2", name) for case, name in found}
    assert {"report.html", "summary.json", "merged.json", "sweep.json"} <= sweep.stored().keys()
    assert "Greedy answers were not compared" in " ".join(read.summary.notes)
    assert "k7 against Base" in benchmark("read", str(folder)).out


@pytest.mark.usefixtures("undrawn")
def test_an_index_measures_one_variant_between_two_controls(
    benchmark: Benchmark, sweep: Sweep
) -> None:
    assert run(benchmark, sweep, "k3").status == 0
    stored = sweep.stored("variants/k3/")
    assert {"variants/k3/_COMPLETE", "variants/k3/ledger.jsonl"} <= stored.keys()
    records = read_ledger(sweep.root / "variants" / "k3" / "ledger.jsonl")
    assert {record.variant for record in records} == {"k3"}
    rounds = [(record.round, record.attempt) for record in records]
    assert list(dict.fromkeys(rounds)) == [(0, 1), (CONTROL, 1), (1, 1), (2, 1), (CONTROL, 2)]
    assert Counter(rounds)[CONTROL, 1] == Counter(rounds)[CONTROL, 2] == 2
    assert [len(server.sent) for server in sweep.servers.values()] == [0, 2 * (TURNS + 3), 0]
    # Its baseline is not there yet: there is no run to show.
    assert "config.json" not in sweep.stored()
    assert json.loads(sweep.stored()["merged.json"])["missing"]["k3"].startswith("the results of B")


def published(variant: str) -> int:
    """How many requests of a variant are in CloudWatch."""
    found: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    ends = [datum for datum in found if datum.name == "EndToEndLatency"]
    return sum(variant in {d.value for d in datum.dimensions} for datum in ends)


@pytest.mark.usefixtures("undrawn")
def test_a_complete_index_measures_nothing_and_needs_no_server(
    benchmark: Benchmark, sweep: Sweep
) -> None:
    assert run(benchmark, sweep, "Base").status == 0
    before, sent = sweep.stored(), len(sweep.servers["Base"].sent)
    sweep.servers["Base"].healthy = False
    assert run(benchmark, sweep, "Base").status == 0
    assert len(sweep.servers["Base"].sent) == sent
    assert {name for name, data in sweep.stored().items() if before.get(name) != data} == set()
    assert published("Base") == 2 * TURNS


@pytest.mark.usefixtures("undrawn")
def test_a_killed_index_resumes_from_the_bucket(benchmark: Benchmark, sweep: Sweep) -> None:
    """In a new pod with an empty disk: it measures the rest alone, and publishes nothing twice."""
    assert run(benchmark, sweep, "Base").status == 0
    progress = "variants/k3/progress.jsonl"
    with started("index", environment=os.environ | sweep.environment("k3")) as process:
        # Not sooner: what was on its way to CloudWatch is not sent again.
        eventually(lambda: published("k3") >= 2)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = sweep.stored("variants/k3/")
    assert "variants/k3/_COMPLETE" not in kept
    done = kept[progress].count(b"\n") - 1
    assert 1 <= done < TURNS

    ended = run(benchmark, sweep, "k3")
    assert ended.status == 0, ended.err
    stored = sweep.stored()
    ledger = stored["variants/k3/ledger.jsonl"]
    assert ledger.startswith(kept["variants/k3/ledger.jsonl"])
    measured = [line["round"] for line in map(json.loads, stored[progress].splitlines())]
    assert measured.count(CONTROL) == 3
    assert measured[-1] == CONTROL
    assert len(measured) - 3 == TURNS
    assert published("k3") == 2 * TURNS
    read = results.read(sweep.download(sweep.folder / "downloaded"))
    assert [[cell.missing for cell in case.cells] for case in read.summary.cases] == [[0, 0]] * 2


@pytest.mark.usefixtures("undrawn")
def test_a_variant_that_never_serves_is_named_and_the_others_have_their_report(
    benchmark: Benchmark, sweep: Sweep
) -> None:
    sweep.servers["k7"].healthy = False
    ended = run(benchmark, sweep, "k7", start_seconds=1)
    assert ended.status == os.EX_UNAVAILABLE == 69
    url = sweep.servers["k7"].url
    assert ended.err.splitlines()[-1] == (
        f"spectap: failed: k7: not serving after 1 s: k7 ({url}), at the last try: HTTP 503; "
        "4 of 4 turns were not run"
    )
    for variant in ("Base", "k3"):
        assert run(benchmark, sweep, variant).status == 0
    read = results.read(sweep.root)
    assert [variant.name for variant in read.config.variants] == ["Base", "k3"]
    missing = "k7 is not in this run, because its results are not complete."
    assert missing in read.summary.notes
    assert b"k3" in sweep.stored()["merged.json"]


@pytest.mark.usefixtures("undrawn")
def test_two_that_end_at_once_leave_the_whole_report(
    benchmark: Benchmark, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """k7 is complete, and writes its report, while k3 is about to write one without it."""
    assert run(benchmark, sweep, "Base").status == 0
    upload, raced = Bucket.upload, list[Ended]()

    def racing(self: Bucket, run_dir: Path, run_id: str | None = None) -> None:
        if run_dir.name == RUN_ID and not raced:
            raced.append(Ended(None, "", ""))
            raced[0] = run(benchmark, sweep, "k7")
        upload(self, run_dir, run_id)

    monkeypatch.setattr(Bucket, "upload", racing)
    ended = run(benchmark, sweep, "k3")
    assert (ended.status, raced[0].status) == (0, 0)
    assert "merged: 3 of 3 variants" in raced[0].out
    assert ended.out.splitlines().count("merged: 3 of 3 variants") == 1
    stored = sweep.stored()
    assert json.loads(stored["merged.json"])["missing"] == {}
    assert {json.loads(line)["variant"] for line in stored["ledger.jsonl"].splitlines()} == {
        *sweep.names
    }


@pytest.fixture
def stopper(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The state machines that were started to end the nodes."""
    started: list[str] = []

    def start(self: Stopper) -> None:
        started.append(self.arn)

    monkeypatch.setattr(Stopper, "start", start)
    return started


@pytest.mark.usefixtures("undrawn")
def test_the_index_that_completes_the_run_ends_the_nodes(
    benchmark: Benchmark, sweep: Sweep, stopper: list[str]
) -> None:
    sweep.write(stopper="arn:stop")
    for variant in ("k7", "Base"):
        assert run(benchmark, sweep, variant).status == 0
        assert stopper == []
    ended = run(benchmark, sweep, "k3")
    assert (ended.status, stopper) == (0, ["arn:stop"])
    assert ended.out.splitlines()[-1].startswith("spectap: the Trainium nodes are being stopped")
    assert json.loads(sweep.stored()["merged.json"])["missing"] == {}


@pytest.mark.usefixtures("undrawn")
def test_nodes_stay_where_a_report_is_not_in_the_bucket(
    benchmark: Benchmark, sweep: Sweep, aws: Aws, stopper: list[str]
) -> None:
    sweep.write(stopper="arn:stop")
    for variant in ("Base", "k3"):
        assert run(benchmark, sweep, variant).status == 0
    aws.before = lambda environ: (
        failure(403, "AccessDenied")
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"][-12:]) == ("PUT", "/merged.json")
        else None
    )
    assert run(benchmark, sweep, "k7").status == 0
    assert stopper == []


@pytest.mark.usefixtures("undrawn")
def test_nodes_that_cannot_be_ended_fail_no_run(benchmark: Benchmark, sweep: Sweep) -> None:
    machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:article-stop"
    sweep.write(stopper=machine)
    ended = [run(benchmark, sweep, variant) for variant in sweep.names]
    assert [one.status for one in ended] == [0, 0, 0]
    (line,) = (line for line in ended[-1].err.splitlines() if "not stopped" in line)
    assert line.startswith(f"spectap: the Trainium nodes were not stopped: {machine}: ")
    assert line.endswith("; make stop stops them, and later their guard")


@pytest.mark.usefixtures("undrawn")
def test_a_merge_that_fails_leaves_the_variant_complete(
    benchmark: Benchmark, sweep: Sweep, aws: Aws
) -> None:
    assert run(benchmark, sweep, "Base").status == 0
    aws.before = lambda environ: (
        failure(403, "AccessDenied")
        if (environ["REQUEST_METHOD"], environ["PATH_INFO"][-12:]) == ("PUT", "/merged.json")
        else None
    )
    ended = run(benchmark, sweep, "k3")
    assert ended.status == 0
    (line,) = (line for line in ended.err.splitlines() if "not merged" in line)
    assert line.startswith("spectap: the variants were not merged: s3://results-bucket: ")
    assert "variants/k3/_COMPLETE" in sweep.stored()


def test_a_report_that_cannot_be_drawn_leaves_the_variant_complete(
    benchmark: Benchmark, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(_: Path) -> None:
        raise ZeroDivisionError("no\nreason")

    monkeypatch.setattr(report, "draw", draw)
    ended = run(benchmark, sweep, "Base")
    assert ended.status == 0
    expected = "spectap: the variants were not merged: ZeroDivisionError: no reason"
    assert ended.err.splitlines()[-1] == expected
    assert "variants/Base/_COMPLETE" in sweep.stored()


@pytest.mark.usefixtures("undrawn")
def test_a_server_that_does_not_come_back_may_do_so_in_the_next_pod(
    benchmark: Benchmark, sweep: Sweep
) -> None:
    """Something was measured, so that it can be served."""
    with started("index", environment=os.environ | sweep.environment("Base")) as process:
        progress = "variants/Base/progress.jsonl"
        eventually(lambda: sweep.stored(progress).get(progress, b"").count(b"\n") >= 2)
        process.kill()
    sweep.servers["Base"].healthy = False
    ended = run(benchmark, sweep, "Base", start_seconds=1)
    assert (ended.status, "not serving after 1 s" in ended.err) == (1, True)


@pytest.mark.usefixtures("undrawn")
def test_a_variant_that_is_served_otherwise_is_measured_anew(
    benchmark: Benchmark, sweep: Sweep
) -> None:
    sweep.serve("Base", "0a1b2c3d")
    assert run(benchmark, sweep, "Base").status == 0
    assert {"variants/Base-0a1b2c3d/_COMPLETE", "config.json"} <= sweep.stored().keys()
    sweep.serve("Base", "4e5f6a7b")
    sent = len(sweep.servers["Base"].sent)
    assert run(benchmark, sweep, "Base").status == 0
    assert len(sweep.servers["Base"].sent) == 2 * sent
    assert "variants/Base-4e5f6a7b/_COMPLETE" in sweep.stored()
    (told,) = json.loads(sweep.stored()["config.json"])["variants"]
    assert told["served"] == "4e5f6a7b"
    assert not (sweep.root / "variants" / "Base-0a1b2c3d").exists()


def test_it_ends_at_once_while_it_merges(sweep: Sweep, aws: Aws) -> None:
    """By a handler of its own, which the first process of a container needs: it says so."""
    merging = threading.Event()

    def before(environ: Any) -> None:
        if environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith("/merged.json"):
            merging.set()
            time.sleep(5)

    aws.before = before
    with started("index", environment=os.environ | sweep.environment("Base")) as process:
        assert merging.wait(60)
        os.kill(process.pid, signal.SIGTERM)
        out, _ = process.communicate(timeout=4)
    assert process.returncode == 128 + signal.SIGTERM
    assert out.endswith("spectap: ended by SIGTERM\n")
    assert "variants/Base/_COMPLETE" in sweep.stored()


@pytest.mark.usefixtures("undrawn")
def test_what_cannot_be_uploaded_is_not_complete(
    benchmark: Benchmark, sweep: Sweep, aws: Aws
) -> None:
    aws.before = lambda environ: (
        failure(403, "AccessDenied") if environ["REQUEST_METHOD"] == "PUT" else None
    )
    ended = run(benchmark, sweep, "Base")
    assert ended.status == 1
    assert "spectap: failed: Base: s3://results-bucket: " in ended.err
    assert not (sweep.root / "variants" / "Base" / "_COMPLETE").exists()


@pytest.mark.usefixtures("undrawn")
def test_metrics_that_were_not_published_are_tried_again_without_measuring(
    benchmark: Benchmark, sweep: Sweep, aws: Aws
) -> None:
    aws.before = lambda environ: (
        failure(403, "AccessDenied") if "PutMetricData" in str(environ) else None
    )
    ended = run(benchmark, sweep, "Base")
    assert ended.status == 1
    assert "variants/Base/_COMPLETE" in sweep.stored()
    aws.behave()
    sweep.servers["Base"].healthy = False
    assert run(benchmark, sweep, "Base").status == 0
    assert published("Base") == 2 * TURNS


def test_a_pod_that_is_deleted_leaves_what_it_measured_in_the_bucket(
    sweep: Sweep,
) -> None:
    with started("index", environment=os.environ | sweep.environment("Base")) as process:
        ledger = sweep.root / "variants" / "Base" / "ledger.jsonl"
        eventually(lambda: ledger.exists() and ledger.read_bytes().count(b"\n") >= 2)
        process.terminate()
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert "spectap: ended by SIGTERM" in out
    assert sweep.stored()["variants/Base/ledger.jsonl"] == ledger.read_bytes()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"JOB_COMPLETION_INDEX": "3"},
            "JOB_COMPLETION_INDEX = '3': must be a whole number from 0 to 2, the number of a "
            "variant",
        ),
        (
            {"JOB_COMPLETION_INDEX": ""},
            "JOB_COMPLETION_INDEX = '': must be a whole number from 0 to 2, the number of a "
            "variant",
        ),
        ({"START_SECONDS": "soon"}, "START_SECONDS = 'soon': must be a whole number of at least 1"),
        ({"RUN_ID": "a/b"}, "RUN_ID = 'a/b': must match [A-Za-z0-9][A-Za-z0-9._-]{0,127}"),
    ],
)
def test_a_bad_environment_is_one_line(
    benchmark: Benchmark, sweep: Sweep, environment: dict[str, str], message: str
) -> None:
    ended = benchmark("index", **(sweep.environment("Base") | environment))
    assert (ended.status, ended.err) == (2, f"spectap: {message}\n")


def test_variants_that_serve_together_are_not_measured_apart(
    benchmark: Benchmark, sweep: Sweep
) -> None:
    sweep.write(apart=False)
    ended = run(benchmark, sweep, "Base")
    assert ended.status == 2
    assert ended.err.endswith(
        "config.json: apart = false: must be true, since a variant is measured alone\n"
    )
