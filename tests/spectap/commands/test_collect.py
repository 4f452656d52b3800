"""From what a job generates to one run of all variants: what is kept, shipped and merged."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.cloudwatch.models import cloudwatch_backends

from spectap.commands import collect, report
from spectap.ledger import read_ledger
from spectap.report import results
from tests.spectap.aws.embedded import BUCKET, REGION, Aws, failure, serving
from tests.spectap.commands.processes import Benchmark, Ended, eventually, started
from tests.spectap.offline.jobs import BASE_STEP, RUN_ID, STEP, TIMES, Jobs

ACCOUNT = "123456789012"  # moto's own
PROMPTS = 2 * 3 * 2
"""Two test cases, three rounds, two prompts."""


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
def jobs(tmp_path: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    monkeypatch.setattr(collect, "POLL_SECONDS", 0.05)
    return Jobs(tmp_path)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest."""
    monkeypatch.setattr(report, "draw", lambda _: None)


def run(benchmark: Benchmark, jobs: Jobs, variant: str, **options: Any) -> Ended:
    """One pod of the variant's index, its containers one after the other."""
    pod = jobs.pod(variant)
    begun = benchmark("prompts", **pod)
    assert begun.status == 0, begun.err
    jobs.generate(variant, **options)
    return benchmark("collect", **pod)


def published(variant: str) -> int:
    """How many generations of a variant are in CloudWatch."""
    found: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    ends = [datum for datum in found if datum.name == "EndToEndLatency"]
    return sum(variant in {d.value for d in datum.dimensions} for datum in ends)


def test_two_jobs_one_after_the_other_make_one_run(
    benchmark: Benchmark, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as first:
        first.setattr(report, "draw", lambda _: None)
        ended = run(benchmark, jobs, "Base")
        assert (ended.status, ended.err) == (0, "")
        # Its own report is not the run's: there is nothing to compare yet, but the baseline.
        assert json.loads(jobs.stored()["merged.json"])["complete"] == ["Base"]
    pod = jobs.pod("vanilla")
    assert benchmark("prompts", **pod).status == 0
    demo = {"e2e_model": TIMES, "speculation_model": TIMES}
    (jobs.own("vanilla") / "inference_demo.json").write_text(json.dumps(demo), encoding="utf-8")
    jobs.generate("vanilla")
    ended = benchmark("collect", **pod)
    assert (ended.status, ended.err) == (0, "")
    assert "merged: 2 of 2 variants\n" in ended.out
    stored = jobs.stored()
    assert {"report.html", "ledger.jsonl", "answers.jsonl", "inference_demo/vanilla.json"} <= {
        *stored
    }
    assert json.loads(stored["inference_demo/vanilla.json"]) == demo
    assert not [name for name in stored if "generat" in name]
    for variant in ("Base", "vanilla"):
        assert published(variant) == PROMPTS
    sent: list[Any] = list(cloudwatch_backends[ACCOUNT][REGION].metric_data)
    assert "InterTokenLatency" not in {datum.name for datum in sent}, "there was no llmperf"
    assert b"InterTokenLatency" not in stored["summary.json"]
    read = results.read(jobs.root)
    assert read.summary.complete
    for case in read.summary.cases:
        (cell, found) = case.compared[0]
        assert cell.steps
        decoding = found.by_time_per_output_token
        assert decoding
        truth = BASE_STEP / (STEP / cell.steps.mean)
        assert decoding.point == pytest.approx(truth, rel=0.03)
        assert decoding.low < truth < decoding.high


@pytest.mark.usefixtures("undrawn")
def test_the_ledger_has_each_generation_as_a_request(benchmark: Benchmark, jobs: Jobs) -> None:
    assert run(benchmark, jobs, "Base").status == 0
    records = read_ledger(jobs.own("Base") / "ledger.jsonl")
    assert [record.round for record in records] == [0, -1, *([1] * 4), *([2] * 4), *([3] * 4), -1]
    assert len({record.request for record in records}) == len(records)
    one = records[2]
    assert (one.variant, one.case, one.load) == ("Base", "counting", "concurrency-1")
    assert (one.status, one.error, one.output_tokens, one.prompt_tokens) == (200, None, 40, 64)
    assert one.stream
    assert one.shows_steps
    assert [tokens for _, tokens in one.chunks] == [1] * 40


@pytest.mark.usefixtures("undrawn")
def test_equal_generations_make_equal_bytes_however_often_they_are_taken(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("Base")
    for_once = jobs.own("Base") / "generations.jsonl"
    lines = for_once.read_bytes().splitlines(keepends=True)
    files = []
    for parts in ([lines], [lines[:7], lines[7:9], lines[9:]]):
        fresh = jobs.pod("Base") | {"RUN_ID": f"{RUN_ID}-{len(parts)}"}
        root = Path(fresh["RESULTS_DIR"]) / fresh["RUN_ID"]
        own = root / "variants" / jobs.own("Base").name
        assert benchmark("prompts", **fresh).status == 0
        for number, part in enumerate(parts, 1):
            with (own / "generations.jsonl").open("ab") as file:
                file.writelines(part)
            (own / "generate.ended").write_text("0" if number == len(parts) else "1")
            status = benchmark("collect", **fresh).status
        assert status == 0
        files.append([(own / name).read_bytes() for name in ("ledger.jsonl", "answers.jsonl")])
    assert files[0] == files[1]


@pytest.mark.usefixtures("undrawn")
def test_what_was_generated_before_a_failure_is_kept_and_the_next_pod_goes_on(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    ended = run(benchmark, jobs, "vanilla", until=5, status=137)
    assert ended.status == 1
    assert ended.err == (
        "spectap: failed: vanilla: what generates ended with status 137\n"
        "spectap: failed: vanilla: 5 of 6 turns were not generated to their end\n"
    )
    assert "merged.json" not in jobs.stored()
    assert published("vanilla") == 2
    kept = jobs.stored()["variants/vanilla-4e5f6a7b/ledger.jsonl"]
    ended = run(benchmark, jobs, "vanilla")
    assert (ended.status, ended.err) == (0, "")
    whole = jobs.stored()["variants/vanilla-4e5f6a7b/ledger.jsonl"]
    assert whole.startswith(kept)
    records = read_ledger(jobs.own("vanilla") / "ledger.jsonl")
    measured = [(r.round, r.case, r.attempt, r.request) for r in records if r.round > 0]
    assert len(measured) == len({*measured}) == PROMPTS
    assert published("vanilla") == PROMPTS
    assert [r.attempt for r in records if r.round == -1] == [1, 2, 3]


@pytest.mark.usefixtures("undrawn")
def test_a_failed_prompt_is_named_and_its_turn_done_again(benchmark: Benchmark, jobs: Jobs) -> None:
    error = "RuntimeError: the device went away"
    ended = run(benchmark, jobs, "Base", until=4, fails=error)
    assert ended.err.splitlines()[0] == (
        f"spectap: failed: Base: counting, round 1: 1 of 2 prompts: {error}"
    )
    assert run(benchmark, jobs, "Base").status == 0
    (merged,) = {record.run for record in read_ledger(jobs.root / "ledger.jsonl")}
    assert merged == RUN_ID
    (case, _) = results.read(jobs.root).summary.cases
    assert (case.cells[0].requests, case.cells[0].errors) == (6, 0)
    assert case.cells[0].repeated_errors == 1


@pytest.mark.usefixtures("undrawn")
def test_a_prompt_that_does_not_fit_counts_as_failed_and_holds_nothing_up(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("Base", until=4, fails="refused: the prompt has 412 tokens, 256 fit")
    assert benchmark("collect", **pod).status == 1
    ended = run(benchmark, jobs, "Base")
    assert (ended.status, ended.err) == (0, "")
    (case, _) = results.read(jobs.root).summary.cases
    assert (case.cells[0].requests, case.cells[0].errors, case.cells[0].missing) == (6, 1, 0)
    assert "the prompt has 412 tokens, 256 fit" in case.notes[0]


@pytest.mark.usefixtures("undrawn")
def test_steps_that_do_not_add_up_to_the_answer_are_no_answer(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("Base")
    path = jobs.own("Base") / "generations.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines[2]["output_tokens"] += 1
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    ended = benchmark("collect", **pod)
    assert ended.status == 1
    assert "1 of 2 prompts: its steps have 40 tokens, and its text 41" in ended.err


@pytest.mark.usefixtures("undrawn")
def test_texts_leave_the_pod_only_if_answers_are_kept(benchmark: Benchmark, jobs: Jobs) -> None:
    assert run(benchmark, jobs, "Base").status == 0
    assert not [name for name, data in jobs.stored().items() if b"the answer to" in data]
    jobs.write(keep_answers=True)
    jobs.run_id = "other"
    assert run(benchmark, jobs, "Base").status == 0
    kept = [name for name, data in jobs.stored().items() if b"the answer to" in data]
    assert kept == ["answers.jsonl", "variants/Base-0a1b2c3d/answers.jsonl"]


@pytest.mark.usefixtures("undrawn")
def test_a_turn_leaves_the_pod_while_the_next_is_generated(
    benchmark: Benchmark, jobs: Jobs
) -> None:
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("Base", until=5)
    (jobs.own("Base") / "generate.ended").unlink()
    with started("collect", environment=os.environ | pod) as process:
        eventually(lambda: published("Base") == 2)
        assert "variants/Base-0a1b2c3d/ledger.jsonl" in jobs.stored()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert "spectap: ended by SIGTERM; what was measured is kept in" in out
    # The fifth prompt, which is half a turn, too.
    assert jobs.stored()["variants/Base-0a1b2c3d/ledger.jsonl"].count(b"\n") == 5


@pytest.mark.usefixtures("undrawn")
def test_what_generates_may_be_killed_without_a_word(benchmark: Benchmark, jobs: Jobs) -> None:
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).status == 0
    jobs.generate("Base", until=5)
    (jobs.own("Base") / "generate.ended").unlink()
    with (jobs.own("Base") / "generate.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with started("collect", environment=os.environ | pod) as process:
            eventually(lambda: published("Base") == 2)
            assert process.poll() is None
            lock.close()
            _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert err.splitlines()[0] == (
        "spectap: failed: Base: what generates was killed: it did not say how it ended"
    )
    assert jobs.stored()["variants/Base-0a1b2c3d/ledger.jsonl"].count(b"\n") == 5


@pytest.mark.usefixtures("undrawn")
def test_a_complete_variant_is_only_merged(benchmark: Benchmark, jobs: Jobs) -> None:
    assert run(benchmark, jobs, "Base").status == 0
    before = jobs.stored()
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).out == "Base: 0 prompts to generate\n"
    ended = benchmark("collect", **pod)  # It waits for nothing.
    assert (ended.status, ended.err) == (0, "")
    assert "merged: 1 of 2 variants" in ended.out
    assert {name for name, data in jobs.stored().items() if before.get(name) != data} == set()
    assert published("Base") == PROMPTS


@pytest.mark.usefixtures("undrawn")
def test_raw_results_are_stored_before_anything_is_published(
    benchmark: Benchmark, jobs: Jobs, aws: Aws
) -> None:
    assert run(benchmark, jobs, "Base").status == 0
    kinds = ["ledger" if "ledger" in path else way for way, path in aws.asked]
    assert kinds.index("ledger") < kinds.index("POST")


@pytest.mark.usefixtures("undrawn")
def test_metrics_that_were_not_published_are_tried_again_without_generating(
    benchmark: Benchmark, jobs: Jobs, aws: Aws
) -> None:
    aws.before = lambda environ: (
        failure(403, "AccessDenied") if "PutMetricData" in str(environ) else None
    )
    ended = run(benchmark, jobs, "Base")
    assert ended.status == 1
    assert "variants/Base-0a1b2c3d/_COMPLETE" in jobs.stored()
    aws.behave()
    pod = jobs.pod("Base")
    assert benchmark("prompts", **pod).out == "Base: 0 prompts to generate\n"
    assert benchmark("collect", **pod).status == 0
    assert published("Base") == PROMPTS
