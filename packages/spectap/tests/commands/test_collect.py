"""From what inference_demo reports to one run of all variants: kept, merged and drawn."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from spectap import golden
from tests import samples
from tests.aws.embedded import Aws, stored
from tests.commands.processes import Benchmark, Ended

RUN_ID: Final = "offline-1a2b3c4d"
RUN: Final = f"results/{RUN_ID}/"
VARIANTS: Final[list[dict[str, Any]]] = [
    {"name": "Base", "baseline": None, "batch": 1, "served": "0a1b2c3d"},
    {
        **{"name": "SD", "baseline": "Base", "batch": 1, "served": "4e5f6a7b"},
        **{"mode": "vanilla", "draft": "Qwen/Qwen3-1.7B @ 70d244cc", "window": 7},
    },
]
RECORDED: Final = Path(golden.__file__).with_name("jobs")


Collect = Callable[[int, str | None], Ended]


@pytest.fixture
def collect(tmp_path: Path, benchmark: Benchmark, store: Aws) -> Collect:
    """The pod of an index, with a disk of its own, in which inference_demo has left a report."""

    def call(index: int, report: str | None) -> Ended:
        variant = VARIANTS[index]
        results = tmp_path / f"pod-{index}"
        folder = results / RUN_ID / "variants" / f"{variant['name']}-{variant['served']}"
        folder.mkdir(parents=True, exist_ok=True)
        if report is not None:
            (folder / "inference_demo.json").write_text(report)
            (folder / "inference_demo.log").write_text("Loading model to Neuron...\n")
        return benchmark(
            "collect",
            BENCHMARK_CONFIG=str(tmp_path / "config.json"),
            RESULTS_DIR=str(results),
            RUN_ID=RUN_ID,
            JOB_COMPLETION_INDEX=str(index),
        )

    write(tmp_path, VARIANTS)
    return call


def write(folder: Path, variants: list[dict[str, Any]]) -> None:
    settings = samples.settings(isolated=True, variants=variants)
    (folder / "config.json").write_text(json.dumps(settings))


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.json").read_text()


def test_two_jobs_one_after_the_other_make_one_run(
    collect: Collect, tmp_path: Path, benchmark: Benchmark
) -> None:
    """It is drawn again by ``report``, and read by nothing else."""
    ended = collect(0, recorded("baseline"))
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(stored(RUN)["merged.json"])["complete"] == ["Base"]
    ended = collect(1, recorded("vanilla"))
    assert (ended.status, ended.err) == (0, "")
    assert "merged: 2 of 2 variants\n" in ended.out
    files = stored(RUN)
    assert files["inference_demo/SD.json"].decode() == recorded("vanilla")
    assert {"inference_demo/Base.log", "inference_demo/SD.log", "report.html"} <= {*files}
    # p50 of whole generations, which are in the recorded files.
    (row,) = [line for line in ended.out.splitlines() if "vanilla, window 7" in line][:1]
    assert row.split()[-5:] == ["18,143", "18,153", "18,167", "56.4", "1.28"]

    run = tmp_path / "pod-1" / RUN_ID
    (run / "report.html").unlink()
    assert benchmark("report", str(run)).status == 0
    assert (run / "report.html").read_bytes() == files["report.html"]
    ended = benchmark("merge", str(run))
    assert (ended.status, ended.out) == (0, "merged: 2 of 2 variants\n")
    for command in (("read",), ("advise",), ("compare", str(tmp_path))):
        assert "ran as jobs" in benchmark(*command, str(run)).refusal()


@pytest.mark.parametrize(
    ("report", "why"), [(None, "cannot be read"), ('{"e2e_model": null}', "e2e_model: is missing")]
)
def test_a_report_that_is_none_is_named_and_completes_nothing(
    collect: Collect, report: str | None, why: str
) -> None:
    ended = collect(0, report)
    assert ended.status == 1
    assert ended.err.startswith("spectap: failed: Base: ")
    assert f"inference_demo.json: {why}" in ended.err
    assert "merged.json" not in stored(RUN)


def test_services_are_no_jobs(collect: Collect, tmp_path: Path) -> None:
    write(tmp_path, [{**variant, "endpoint": "http://h:8000/v1"} for variant in VARIANTS])
    refusal = collect(0, recorded("baseline")).refusal()
    assert "must have none, since they run as jobs" in refusal
