"""Rehearsals of a sweep, of jobs, and of services, on golden endpoints and an embedded AWS."""

import json
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pytest

from rehearsal.aws import Aws, download_run
from rehearsal.endpoints import GOLDEN
from rehearsal.indexes import RECORDED
from rehearsal.manifest import IndexedJob
from rehearsal.setting import STAND_INS, Servers, Setting
from spectap.inputs.config import Config
from spectap.records.ledger import read_ledger
from spectap.records.record import Record
from tests.experiment.files import ABSENT, VANILLA, of_file, swept
from tests.rehearsal.conftest import QUICK, Rehearse, Rehearsed
from tests.run_make import contents

BASE, BROKEN = "Base", "k5"
CASES: Final = [
    {"name": "repeat-line", "line": "Repeat it", "structure": "structured", "headline": True},
    {"name": "meaning", "line": "I believe", "structure": "open-ended", "headline": True},
]
SHORT: Final[dict[str, Any]] = {"benchmark.requests": 4, "benchmark.test_cases": CASES}
DRAFTS: Final = 3
"""Of experiments/eagle3.yaml, in a step."""

TOOL: Final = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
OWN: Final = [{"prompt": "Größe?"}, {"prompt": "Wie warm ist es?", "tools": [TOOL]}]
SOURCES: Final[dict[str, Any]] = {
    "repeat-line": {"line": "Wiederhole: 重复 " * 250, "structure": "structured"},
    "humaneval": {"set": "humaneval"},
    "own": {"file": "own.jsonl"},
}
LOADS: Final[list[dict[str, Any]]] = [{"concurrency": 2}, {"rate": 4, "seconds": 0.5}]


@pytest.fixture(scope="module")
def kinds(rehearse: Rehearse) -> Rehearsed:
    """Each kind of test case, at each kind of load."""
    changes = {
        "name": "kinds",
        "benchmark.test_cases": [{"name": name} | source for name, source in SOURCES.items()],
        "benchmark.load": LOADS,
        "benchmark.concurrency": ABSENT,
        "benchmark.requests": 2,
    }
    return rehearse(changes, prompts="".join(f"{json.dumps(each)}\n" for each in OWN))


def test_every_kind_of_test_case_is_rehearsed_at_every_kind_of_load(kinds: Rehearsed) -> None:
    """Jobs and a sweep are rehearsed below, with lines."""
    assert all(record.succeeded for record in kinds.run.records)
    measured = [record for record in kinds.run.records if record.round > 0]
    assert {(record.case, record.load, record.variant, record.tools) for record in measured} == {
        (case, load, variant, tools)
        for case in SOURCES
        for load in ("concurrency-2", "rate-4")
        for variant in ("Base", "SD")
        for tools in ({False, True} if case == "own" else {False})
    }
    assert SOURCES["repeat-line"]["line"] in {each.line for each in kinds.run.config.test_cases}


def _broken(setting: Setting, job: IndexedJob | None) -> Servers:
    """Golden endpoints, of which one ends at once."""
    servers = GOLDEN.servers(setting, job)
    broken = replace(servers.by_variant[BROKEN], command=("sh", "-c", "echo no weights"))
    return replace(servers, by_variant={**servers.by_variant, BROKEN: broken})


@pytest.fixture(scope="module")
def sweep(rehearse: Rehearse) -> Rehearsed:
    """With a key. One index has no server."""
    changes = swept(windows=[3, 5]) | SHORT | {"serving.api_key": True}
    return rehearse(changes, replace(QUICK, servers=_broken))


def events(rehearsed: Rehearsed, variant: str) -> list[str]:
    """What was printed of an index, without times and reasons."""
    lines = re.findall(rf"^ {{3,}}index \d, {variant}: (.*)$", rehearsed.printed, re.MULTILINE)
    return [re.sub(r"^complete.*", "complete", re.sub("^.*; ", "", line)) for line in lines]


def ledger(rehearsed: Rehearsed, variant: str) -> list[Record]:
    folders = {each.name: each.folder for each in rehearsed.run.config.variants}
    return read_ledger(rehearsed.outcome.run_dir / "variants" / folders[variant] / "ledger.jsonl")


def test_an_index_that_fails_is_reported_and_stops_no_other(sweep: Rehearsed) -> None:
    for complete in (BASE, "k3"):
        assert events(sweep, complete) == ["started", "complete"]
    assert events(sweep, BROKEN) == ["started", "failed"]
    (failed,) = sweep.outcome.failed
    assert failed.startswith(f"index 2, {BROKEN}: ")
    assert "its server ended: no weights; see " in failed
    assert f"  {failed}" in sweep.printed
    (note,) = [note for note in sweep.run.notes if BROKEN in note]
    page = (sweep.outcome.run_dir / "report.html").read_text(encoding="utf-8")
    assert note in " ".join(page.split())


def test_the_merged_run_has_the_complete_variants_each_with_controls(sweep: Rehearsed) -> None:
    cells = [cell for case in sweep.run.summary.cases for cell in case.cells]
    assert [cell.variant for cell in cells] == [BASE, "k3"] * len(CASES)
    assert {(cell.errors, cell.requests) for cell in cells} == {(0, 4)}
    for variant in (BASE, "k3"):
        records = ledger(sweep, variant)
        assert {record.variant for record in records} == {variant}
        assert len({record.attempt for record in records if record.round == -1}) >= 2
    merged = Config.model_validate_json((sweep.outcome.run_dir / "sweep.json").read_bytes())
    assert merged.isolated
    assert len(merged.variants) == 3


def test_every_difference_of_a_sweep_from_its_pods_is_in_a_file(sweep: Rehearsed) -> None:
    for difference in (
        "START_SECONDS: 5 in place of 2700",
        "fetch: left out",
        "vllm: a process beside the benchmark",
        "variants.k5.endpoint: http://127.0.0.1:",
        "RUN_ID: rehearsal-",
    ):
        assert difference in sweep.stand_ins
        assert difference not in sweep.printed


def test_jobs_run_one_at_a_time_and_leave_their_reports(rehearse: Rehearse) -> None:
    jobs = rehearse(VANILLA | {"name": "jobs"})
    indexes = re.findall(r"^ +index (\d), \S+: (?:started|complete)", jobs.printed, re.M)
    assert indexes == ["0", "0", "1", "1"]
    for variant, recorded in (("Base", "baseline"), ("SD", "vanilla")):
        report = jobs.outcome.run_dir / "inference_demo" / f"{variant}.json"
        assert report.read_bytes() == (RECORDED / f"{recorded}.json").read_bytes()
    assert "Rehearsal of jobs: jobs of inference_demo" in jobs.printed
    assert "no verdict" not in jobs.printed
    for stand_in in ("generate: an output of", "Endpoints: none; an output of"):
        assert f"{stand_in} inference_demo" in jobs.stand_ins


@pytest.fixture(scope="module")
def services(rehearse: Rehearse) -> Rehearsed:
    """EAGLE3 on vllm-neuron, whose servers count drafts, launched thrice, by completions."""
    eagle3 = of_file("eagle3")
    eagle3["benchmark"] |= {"load": [{"concurrency": 2}], "requests": 2, "mean_input_tokens": 64}
    eagle3["benchmark"] |= {"test_cases": CASES, "rounds": 3, "launches": 3}
    eagle3["benchmark"] |= {"endpoint_type": "completions", "ignore_eos": True}
    eagle3["published"][0]["test_case"] = "meaning"
    return rehearse(eagle3)


def test_the_servers_drafts_agree_with_the_ledger(services: Rehearsed) -> None:
    checks = services.run.checks
    assert {check.variant for check in checks} == {"Base", "Base-matched", "SD"}
    for check in checks:
        assert check.failures == ()
        names = ["tokens", "steps", *(["accepted drafts"] if check.variant == "SD" else [])]
        assert [figure.name for figure in check.figures] == names


def test_a_step_yields_up_to_one_token_more_than_its_drafts(services: Rehearsed) -> None:
    steps: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record in services.run.records:
        steps[record.variant, record.case] += [tokens for _, tokens in record.chunks[1:]]
    assert {*steps["Base", "meaning"]} == {1}
    structured, open_ended = steps["SD", "repeat-line"], steps["SD", "meaning"]
    assert max(structured) == DRAFTS + 1
    # The server knows either prompt by its line.
    assert fmean(structured) > 3 > 2.5 > fmean(open_ended)
    [beside] = services.run.summary.published
    assert None not in beside.measured


def test_the_bucket_has_the_run_as_it_is_here(
    services: Rehearsed, aws: Aws, tmp_path: Path
) -> None:
    here, bucket = services.outcome.run_dir, str(services.run.config.bucket)
    download_run(aws, bucket, tmp_path / here.name)
    stored = contents(tmp_path / here.name)
    assert stored == {name: contents(here)[name] for name in stored}
    assert contents(here).keys() - stored.keys() == {STAND_INS}


def test_services_are_launched_again_and_compared_by_launch(services: Rehearsed) -> None:
    records = [record for record in services.run.records if record.round > 0]
    assert {(record.round, record.launch) for record in records} == {(n, n) for n in (1, 2, 3)}
    assert "RELAUNCH: kill -HUP " in services.stand_ins
    assert services.run.summary.launches == 3
    for case in services.run.summary.cases:
        compared = case.cell("SD").comparison
        assert compared is not None
        assert compared.speed is not None
