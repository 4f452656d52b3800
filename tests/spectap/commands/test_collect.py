"""From what inference_demo reports to one run of all variants: kept, merged and drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

from tests.spectap import samples
from tests.spectap.aws.embedded import BUCKET, REGION, Aws, serving
from tests.spectap.commands.indexes import stored
from tests.spectap.commands.processes import Benchmark, Ended

RUN_ID: Final = "offline-1a2b3c4d"
VARIANTS: Final[list[dict[str, Any]]] = [
    {"name": "Base", "baseline": None, "batch": 1, "served": "0a1b2c3d"},
    {
        **{"name": "SD", "baseline": "Base", "batch": 1, "served": "4e5f6a7b"},
        **{"mode": "vanilla", "draft": "Qwen/Qwen3-1.7B @ 70d244cc", "window": 7},
    },
]
RECORDED: Final = Path("rehearsal/recorded").absolute()


@pytest.fixture(scope="module")
def server() -> Iterator[Aws]:
    aws = Aws()
    yield aws
    aws.stop()


@pytest.fixture(autouse=True)
def bucket(server: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with serving(server, monkeypatch):
        boto3.client("s3", region_name=REGION).create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield


class Jobs:
    """The pods of two variants, each with a disk of its own."""

    def __init__(self, folder: Path, benchmark: Benchmark) -> None:
        self.folder, self.benchmark = folder, benchmark
        (folder / "config.json").write_text(
            json.dumps(samples.settings(apart=True, variants=VARIANTS))
        )

    def collect(self, index: int, report: str | None) -> Ended:
        """A pod of that index, in which inference_demo has left the report."""
        variant = VARIANTS[index]
        results = self.folder / f"pod-{index}"
        folder = results / RUN_ID / "variants" / f"{variant['name']}-{variant['served']}"
        folder.mkdir(parents=True, exist_ok=True)
        if report is not None:
            (folder / "inference_demo.json").write_text(report)
            (folder / "inference_demo.log").write_text("Loading model to Neuron...\n")
        return self.benchmark(
            "collect",
            BENCHMARK_CONFIG=str(self.folder / "config.json"),
            RESULTS_DIR=str(results),
            RUN_ID=RUN_ID,
            JOB_COMPLETION_INDEX=str(index),
        )


@pytest.fixture
def jobs(tmp_path: Path, benchmark: Benchmark) -> Jobs:
    return Jobs(tmp_path, benchmark)


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.json").read_text()


def test_two_jobs_one_after_the_other_make_one_run(jobs: Jobs, benchmark: Benchmark) -> None:
    """It is drawn again by ``report``, and read by nothing else."""
    ended = jobs.collect(0, recorded("baseline"))
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(stored(RUN_ID)["merged.json"])["complete"] == ["Base"]
    ended = jobs.collect(1, recorded("vanilla"))
    assert (ended.status, ended.err) == (0, "")
    assert "merged: 2 of 2 variants\n" in ended.out
    files = stored(RUN_ID)
    assert files["inference_demo/SD.json"].decode() == recorded("vanilla")
    assert {"inference_demo/Base.log", "inference_demo/SD.log", "report.html"} <= {*files}
    # p50 of whole generations, which are in the recorded files.
    (row,) = [line for line in ended.out.splitlines() if "vanilla, window 7" in line][:1]
    assert row.split()[-5:] == ["18,143", "18,153", "18,167", "56.4", "1.28"]

    run = jobs.folder / "pod-1" / RUN_ID
    page = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert benchmark("report", str(run)).status == 0
    assert (run / "report.html").read_bytes() == page
    for command in (("read",), ("advise",), ("compare", str(jobs.folder))):
        ended = benchmark(*command, str(run))
        assert (ended.status, ended.err.count("\n")) == (2, 1)
        assert "ran as jobs" in ended.err


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (None, "cannot be read"),
        ("{", "Invalid JSON"),
        ('{"e2e_model": {"latency_ms_p50": 1}}', "e2e_model.latency_ms_p90: Field required"),
        ('{"e2e_model": null}', "e2e_model: is missing"),
    ],
)
def test_a_report_that_is_none_is_named_and_completes_nothing(
    jobs: Jobs, report: str | None, why: str
) -> None:
    ended = jobs.collect(0, report)
    assert ended.status == 1
    assert ended.err.startswith("spectap: failed: Base: ")
    assert f"inference_demo.json: {why}" in ended.err
    assert "merged.json" not in stored(RUN_ID)


def test_services_are_no_jobs(jobs: Jobs) -> None:
    served = [{**variant, "endpoint": "http://127.0.0.1:8000/v1"} for variant in VARIANTS]
    path = jobs.folder / "config.json"
    path.write_text(json.dumps(samples.settings(apart=True, variants=served)))
    ended = jobs.collect(0, recorded("baseline"))
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert "must have none, since they run as jobs" in ended.err
