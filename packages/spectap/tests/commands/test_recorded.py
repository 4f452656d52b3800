"""The commands that read what was recorded: advise, compare and read."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.sweeps import Sweep
from spectap import config as configuration
from spectap.journal import Journal
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


def served(out: str) -> dict[str, str]:
    """What is to be served, by class."""
    rows = re.findall(r"^\S* {1,7}(structured|open-ended|the mix) +(.+?)  +", out, re.MULTILINE)
    return dict(rows)


def test_a_run_is_advised_on_by_folder_or_name_and_keeps_the_advice(
    recorded: Path, tmp_path: Path, benchmark: Benchmark
) -> None:
    run = Path(shutil.copytree(recorded, tmp_path / "results" / "sweep-1"))
    ended = benchmark("advise", str(run))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("Advice on sweep: d0-k3, d0-k7, d0-k15 against Base, on Qwen/")
    assert ended.out.endswith(f"advice: {run / 'advice.json'}\n")
    windows = {
        advised["prompt_class"] or "the mix": advised["choice"]["window"]
        for advised in json.loads((run / "advice.json").read_text("utf-8"))["recommendations"]
    }
    as_measured = served(ended.out)
    assert as_measured == {name: f"Qwen3-0.6B, window {w}" for name, w in windows.items()}
    assert windows["open-ended"] < windows["structured"]
    assert benchmark("advise", "sweep-1", RESULTS_DIR=str(run.parent)) == ended

    mixed = benchmark("advise", str(run), "--mix", "structured=0.9, open-ended=0.1").out
    assert "The mix is structured 90 % and open-ended 10 % of the output tokens." in mixed
    assert served(mixed)["structured"] == as_measured["structured"]
    alone = served(benchmark("advise", str(run), "--mix", "structured=1").out)
    assert alone["the mix"] == as_measured["structured"] != as_measured["the mix"]


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ("structured", "'structured': must be a class and its share, such as structured=0.7"),
        ("structured=0.7,open-ended=0.2", "the shares must add up to 1, not to 0.9"),
        ("structured=1,structured=2", "must name each only once"),
        ("structured=-1,open-ended=2", "'structured=-1': must be a class and its share"),
        ("poems=1", "mix: poems was not measured; allowed are structured, open-ended"),
    ],
)
def test_a_bad_mix_is_refused_in_one_line(
    recorded: Path, benchmark: Benchmark, mix: str, message: str
) -> None:
    ended = benchmark("advise", str(recorded), "--mix", mix)
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert message in line
    assert not (recorded / "advice.json").exists()


def test_where_nothing_speculates_one_line_says_so(tmp_path: Path, benchmark: Benchmark) -> None:
    content = generated.config(rounds=1)
    lines = map(generated.uncounted, generated.ledger(content))
    folder = generated.write(tmp_path / "uncounted", content, lines)
    ended = benchmark("advise", str(folder))
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith(f"spectap: {folder}: no variant that speculates has a verdict and")
    shutil.move(folder / "ledger.jsonl", tmp_path / "requests.jsonl")
    ended = benchmark("advise", str(tmp_path / "requests.jsonl"))
    assert "a ledger without the config.json of its run" in ended.err


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


def test_lost_acceptance_fails_the_gate(benchmark: Benchmark, results: Path) -> None:
    old, less = str(results / "old"), str(results / "less")
    ended = benchmark("compare", old, less, "--fail-below", "0.95")
    assert ended.status == 3
    assert "BELOW 0.95: repetition, SD: the new tokens per step is 0." in ended.out
    without = benchmark("compare", "--old", old, "--new", less, "--launch-error", "0.1")
    assert without.status == 0
    assert "BELOW" not in without.out
    assert "more than chance and a launch error of 10 %." in without.out


def test_a_gate_on_runs_that_do_not_compare_ends_with_2(
    benchmark: Benchmark, results: Path, tmp_path: Path
) -> None:
    settings = generated_runs.config(cases=generated_runs.CASES[:1], output_tokens=200)
    longer = generated_runs.write(tmp_path / "longer", settings, generated_runs.ledger(settings))
    ended = benchmark("compare", str(results / "old"), str(longer), "--fail-below", "0.95")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == (
        "spectap: old, longer: they are not comparable: mean_output_tokens: 100 before, 200 now\n"
    )
    without = benchmark("compare", str(results / "old"), str(longer))
    assert (without.status, "NOT COMPARABLE" in without.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("old", "."), "spectap: .: is not the folder of a run: it has no config.json"),
        (("old", "old"), ": is compared with itself"),
        (("--old", "old"), "compare: needs OLD NEW, or --old RUN ... --new RUN ..."),
        (("old", "same", "--fail-below", "1.5"), "must be a number of more than 0 and at most 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    benchmark: Benchmark, results: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended = benchmark("compare", *arguments, RESULTS_DIR=str(results))
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert message in line


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
    (tmp_path / "advice.json").write_text("an earlier one", encoding="utf-8")
    refusal = f"spectap: {tmp_path}/config.json: is not the configuration of a run\n"
    for command in ("read", "advise"):
        assert benchmark(command, str(tmp_path)) == (2, "", refusal)
    assert (tmp_path / "advice.json").read_text(encoding="utf-8") == "an earlier one"


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
    read = benchmark("read", name)
    assert (read.status, read.out) == (2, "")
    (line,) = read.err.splitlines()
    assert line.startswith(f"spectap: {message}")
