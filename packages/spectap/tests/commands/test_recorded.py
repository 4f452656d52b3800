"""The commands that read what was recorded: advise, compare and read."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.sweeps import Sweep
from spectap.inputs import config as configuration
from spectap.records.journal import Journal
from spectap.report import terminal
from tests import generated_runs, samples
from tests import generated_runs as generated
from tests.commands.processes import ROOT, Benchmark

SWEEP = Sweep(
    "advised",
    draft_costs=(0.06,),
    acceptances={"structured": (0.9,), "open-ended": (0.4,)},
    rounds=4,
    tokens=200,
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a sweep."""
    folder = tmp_path_factory.mktemp("results") / "sweep-1"
    content = json.loads(configuration.dump(SWEEP.config()))
    return generated.write(folder, content, map(dataclasses.asdict, SWEEP.records()))


def test_a_run_is_advised_on_by_folder_or_name(recorded: Path, benchmark: Benchmark) -> None:
    ended = benchmark("advise", str(recorded))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("Windows of sweep: d0-k3, d0-k7, d0-k15 against Base, on Qwen/")
    assert re.search(r"^structured +4 +d0-k15 .* yes$", ended.out, re.MULTILINE)
    assert benchmark("advise", recorded.name, RESULTS_DIR=str(recorded.parent)) == ended


def test_one_window_is_nothing_to_advise_on(tmp_path: Path, benchmark: Benchmark) -> None:
    content = generated.config()
    folder = generated.write(tmp_path / "one", content, generated.ledger(content))
    assert benchmark("advise", str(folder)).refusal() == (
        f"spectap: {folder}: fewer than two windows were measured, so there are none to compare"
    )
    shutil.move(folder / "ledger.jsonl", tmp_path / "requests.jsonl")
    ended = benchmark("advise", str(tmp_path / "requests.jsonl"))
    assert "is not the folder of a run: it has no config.json" in ended.err


LOWER = {structure: share - 0.1 for structure, share in generated_runs.ACCEPTANCE.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the same thing, and one whose drafts are accepted less often."""
    folder = tmp_path_factory.mktemp("runs")
    settings = generated_runs.config(cases=generated_runs.CASES[:1])
    for seed, name in enumerate(("old", "same", "less"), start=1):
        acceptance = LOWER if name == "less" else generated_runs.ACCEPTANCE
        lines = generated_runs.ledger(settings, seed, acceptance)
        generated_runs.write(folder / name, settings, lines)
    return folder


def test_the_same_thing_passes_the_gate(benchmark: Benchmark, results: Path) -> None:
    ended = benchmark("compare", "old", "same", "--fail-below", "0.95", RESULTS_DIR=str(results))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("same (new) against old (old)\n")
    assert re.search(r"\b0 of \d+ tokens a step", ended.out)
    assert "Nothing is surely below 0.95 of what it was." in ended.out


def test_how_far_launches_are_apart_may_be_said(benchmark: Benchmark, results: Path) -> None:
    ended = benchmark("compare", "old", "less", "--launch-error", "0.1", RESULTS_DIR=str(results))
    assert (ended.status, "BELOW" in ended.out) == (0, False)
    assert "This assumes that launches of a server are 10 % apart" in ended.out


def test_a_gate_on_runs_that_do_not_compare_ends_with_2(
    benchmark: Benchmark, results: Path, tmp_path: Path
) -> None:
    settings = generated_runs.config(cases=generated_runs.CASES[:1], output_tokens=200)
    longer = generated_runs.write(tmp_path / "longer", settings, generated_runs.ledger(settings))
    ended = benchmark("compare", str(results / "old"), str(longer), "--fail-below", "0.95")
    assert ended.refusal() == (
        "spectap: old, longer: they are not comparable: mean_output_tokens: 100 before, 200 now"
    )
    without = benchmark("compare", str(results / "old"), str(longer))
    assert (without.status, "NOT COMPARABLE" in without.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("old", "."), "spectap: .: is not the folder of a run: it has no config.json"),
        (("old", "old"), ": is compared with itself"),
        (("old",), "the following arguments are required: NEW"),
        (("old", "same", "--fail-below", "1.5"), "must be a number of more than 0 and at most 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    benchmark: Benchmark, results: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = benchmark("compare", *arguments, RESULTS_DIR=str(results))
    assert message in ended.refusal()


RUN = ROOT / "tests" / "earlier_run"


def lines(folder: Path, name: str, *variants: str) -> Path:
    """A ledger with a request of each variant."""
    with Journal(folder / name) as journal:
        for variant in variants:
            journal.append(samples.record(variant=variant))
    return folder / name


@pytest.mark.parametrize("path", [".", "ledger.jsonl"])
def test_a_run_gets_its_own_table(benchmark: Benchmark, path: str) -> None:
    read = benchmark("read", str(RUN / path))
    assert read == (0, terminal.render(RUN) + "\n", "")


def test_a_config_json_of_another_kind_beside_a_ledger(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    shutil.copy(RUN / "ledger.jsonl", tmp_path)
    alone = benchmark("read", str(tmp_path / "ledger.jsonl"))
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}', encoding="utf-8")
    assert benchmark("read", str(tmp_path / "ledger.jsonl")) == alone
    refusal = f"spectap: {tmp_path}/config.json: is not the configuration of a run\n"
    for command in ("read", "advise"):
        assert benchmark(command, str(tmp_path)) == (2, "", refusal)


def test_several_ledgers_are_read_as_one(tmp_path: Path, benchmark: Benchmark) -> None:
    first, second = lines(tmp_path, "a", "Base"), lines(tmp_path, "b", "k3", "k3")
    read = benchmark("read", str(first), str(second))
    assert read.out.startswith("k3 against Base: 3 requests, ")
    mixed = benchmark("read", str(first), str(RUN), str(second))
    assert mixed.out == benchmark("read", str(RUN)).out + read.out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "none: cannot be read: No such file or directory"),
        ("empty", "empty: has no request"),
        ("text", "text:1: "),
    ],
)
def test_what_is_no_ledger_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    benchmark: Benchmark,
    name: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in (("empty", ""), ("torn", '{"run"'), ("text", "one line\n")):
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert benchmark("read", name).refusal().startswith(f"spectap: {message}")
