"""Which stages there are, what they show, and which runs in the bucket are complete."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from charts.benchmark import benchmark_config
from charts.names import Deployed
from charts.sweep_job import run_id
from experiment import load
from operations.account import Bucket, Deployment, DeploymentError
from operations.console import Console, print_table
from operations.stages import stages
from operations.stages.measure import (
    Benchmark,
    complete_indexes,
    complete_run,
    index_config,
    last_progress,
    measured_run,
)
from operations.stages.stage import Progress, StageFailed
from spectap.inputs import config
from spectap.names import COMPLETE, MERGED, results_key, variant_run
from tests.conftest import edited as edited_file
from tests.experiment.files import swept
from tests.operations.api import Objects, meta
from tests.operations.conftest import at, called, performed, put, sizes, with_nodes
from tests.operations.fake_aws import FakeAws
from tests.operations.operators import STAGES
from tests.run_make import ROOT


@pytest.mark.parametrize(
    ("deployment", "names"),
    [
        (at({"compiling": {"node": "trainium"}}), [*STAGES[:4], "start", "compile", *STAGES[6:]]),
        # Its services compile when they start.
        (
            Deployment(load(ROOT / "experiments/dflash.yaml"), "any", "any"),
            [name for name in STAGES if name != "compile"],
        ),
    ],
    ids=["compiles on Trainium", "dflash"],
)
def test_an_experiment_has_the_stages_that_it_needs(
    deployment: Deployment, names: list[str]
) -> None:
    every = stages(deployment)
    assert [stage.name for stage in every] == names
    # What goes on once a run is complete.
    assert [s.name for s in every if not s.costs] == ["preflight", "stop", "results"]


def test_the_benchmarks_newest_progress_is_shown() -> None:
    log = "[0/24] warm-up\n[12/24] round 2 of 4: counting\nreport: x\n"
    assert last_progress(log) == "[12/24] round 2 of 4: counting"
    assert last_progress("waiting for http://qwen-vllm:8000/health\n") == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def console_output(stream: io.StringIO) -> list[str]:
    console = Console(1, stream)
    with console.stage("first") as stage:
        stage.progress = "1 of 2"
        console.say("a line that is longer than a terminal " * 5)
        stage.result = "something"
    return re.sub(r"\d\.\d s", "0.0 s", stream.getvalue()).splitlines()


def test_plain_lines_in_a_log_and_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    title, _, result = console_output(io.StringIO())
    assert (title, result) == ("[1/1] first", "      something, 0.0 s")
    lines = console_output(Terminal())
    assert "1 of 2" in "".join(lines)
    assert lines[-1].endswith("[1/1] first: something, 0.0 s")


HOSTILE = "a\x1b[2Jb\nx"
HARMLESS = "a\ufffd[2Jb\ufffdx"


def test_a_stage_shows_what_others_sent_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    Console(1, stream).say(HOSTILE)
    with Console(1, stream).stage("results") as stage:
        stage.result = HOSTILE
    said, _, result = stream.getvalue().splitlines()
    assert said == f"      {HARMLESS}"
    assert result.startswith(f"      {HARMLESS}, ")
    print_table([("run", HOSTILE, "x")])
    assert capsys.readouterr().out == f"run  {HARMLESS}  x\n"


def test_a_wait_outlives_an_api_that_is_out_of_reach_and_nothing_else() -> None:
    answers: list[object] = [DeploymentError("AWS:\n no route"), None, None, "there"]
    answers += [StageFailed("it never serves")]
    stream = io.StringIO()
    console = Console(1, stream)

    def look() -> object:
        progress.wait("0 of 2\n  are ready")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with console.stage("serve") as line:
        progress = Progress(console, line)
        assert progress.until(look) == "there"
        assert line.progress == "0 of 2 are ready"
        with pytest.raises(StageFailed, match="it never serves"):
            progress.until(look)
    # A log has once, and in one line, what is waited for.
    assert stream.getvalue().count("0 of 2 are ready\n") == 1


SWEEP = swept(windows=[3, 7])


def measured(aws: FakeAws, deployment: Deployment, run: str, **changes: Any) -> None:
    """A complete run, asked what ``deployment`` asks but for ``changes`` of its configuration."""
    written = benchmark_config(deployment.experiment, Deployed(Bucket(deployment).name, "any"))
    body = config.dump(written.model_copy(update=changes))
    put(aws, f"results/{run}/config.json", body=body)
    put(aws, f"results/{run}/_COMPLETE")


def test_the_newest_complete_run_of_the_same_load_counts(
    aws: FakeAws, deployment: Deployment
) -> None:
    assert complete_run(deployment) is None  # without a bucket
    put(aws, "results/ended/ledger.jsonl")
    measured(aws, deployment, "`touch ran`")  # no name of a run
    put(aws, "results/old/config.json", body='{"experiment": "of another version"}')
    put(aws, "results/old/_COMPLETE")
    assert complete_run(deployment) is None
    measured(aws, deployment, "first")
    assert complete_run(deployment) == "first"
    assert measured_run(deployment, again=False) == "first"
    assert measured_run(deployment, again=True) is None
    assert complete_run(at({"capacity.price.usd_per_hour": 1.5})) == "first"
    assert complete_run(at({"benchmark.rounds": 7})) is None
    assert complete_run(at({"serving.length": 2048})) is None


def test_a_sweep_is_complete_once_all_its_variants_are_in_one_run(aws: FakeAws) -> None:
    sweep = at(SWEEP)
    indexes, folder = index_config(sweep), f"results/{run_id(sweep.experiment)}"
    marks = {v.name: f"{folder}/variants/{v.folder}/_COMPLETE" for v in indexes.variants}
    first, *rest = indexes.names
    put(aws, *(marks[name] for name in rest))
    assert complete_indexes(sweep) == rest
    put(aws, f"{folder}/merged.json", body=json.dumps({"complete": rest}))
    assert complete_run(sweep) is None
    put(aws, marks[first])
    assert complete_run(sweep) is None  # the last is still being merged
    for body in ("[", "[]", "null", '{"complete": 5}', '{"complete": [[]]}', "[" * 100_000):
        put(aws, f"{folder}/merged.json", body=body)
        assert complete_run(sweep) is None
    put(aws, f"{folder}/merged.json", body=json.dumps({"complete": [*indexes.names]}))
    assert complete_run(sweep) == run_id(sweep.experiment)


def complete(aws: FakeAws, deployment: Deployment) -> None:
    """All variants of a sweep are, and the merged run has them."""
    indexes, run = index_config(deployment), run_id(deployment.experiment)
    merged = json.dumps({"complete": [*indexes.names]})
    put(aws, results_key(run, MERGED), body=merged)
    folders = (variant_run(run, variant.folder) for variant in indexes.variants)
    put(aws, *(results_key(folder, COMPLETE) for folder in folders))


def test_a_run_is_over_when_no_index_merges_any_more(aws: FakeAws, api: Objects) -> None:
    """Its nodes are ended then: what an index still uploads would be lost, or half of it."""
    deployment = at(SWEEP)
    with_nodes(aws, 1)
    job = {"metadata": meta("qwen-sweep", {"app": "qwen-sweep"}), "status": {"active": 1}}
    api.lists["jobs"] = [job]
    looks = []

    def look(kind: str) -> None:
        looks.extend([kind] if kind == "jobs" else [])
        if len(looks) == 3:
            complete(aws, deployment)
        job["status"] = {"active": int(len(looks) < 6)}

    api.on_read = look
    output = performed(Benchmark(deployment))
    assert f"run {run_id(deployment.experiment)} is complete" in output
    assert len(looks) == 6

    put(aws, results_key(run_id(deployment.experiment), MERGED), body="[")
    job["status"] = {"completionTime": "2026-12-01T00:00:00Z"}
    api.on_read = lambda _: None
    with pytest.raises(StageFailed, match=r"merged\.json does not name all variants"):
        performed(Benchmark(deployment))


def test_measuring_a_complete_sweep_anew_is_refused_before_anything_costs(
    aws: FakeAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = Deployment.of(str(edited_file(tmp_path, SWEEP)))
    with_nodes(aws)
    complete(aws, deployment)
    assert called("experiment", deployment.file, "--yes", "--again") == 1
    refusal = capsys.readouterr().err
    assert refusal.startswith(f"run {run_id(deployment.experiment)} is complete")
    assert "change sweep.run: that starts another run" in refusal
    assert sizes(aws) == [0, 0]
