"""The commands that read what was recorded, for people and for programs; and what all share."""

import csv
import io
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

from spectap.analysis import summary
from spectap.commands import pod
from spectap.commands.arguments import Exit
from spectap.names import LEDGER
from spectap.records.journal import Journal
from spectap.report import terminal
from tests import generated_runs as generated
from tests import samples
from tests.commands.processes import ROOT, Benchmark


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
    settings = generated.config(cases=generated.CASES[:1], output_tokens=200)
    longer = generated.write(tmp_path / "longer", settings, generated.ledger(settings))
    ended = benchmark("compare", str(results / "old"), str(longer), "--fail-below", "0.95")
    assert ended.refusal() == (
        "spectap: old, longer: they are not comparable: mean_output_tokens: 100 before, 200 now"
    )
    without = benchmark("compare", str(results / "old"), str(longer))
    assert (without.status, "NOT COMPARABLE" in without.out) == (0, True)


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
    ("arguments", "message"),
    [
        ("", "spectap: the following arguments are required: COMMAND"),
        (
            "report no-such-run",
            "spectap report: argument RUN_DIR: 'no-such-run': there is no such ",
        ),
        ("run", "spectap: none.json: cannot be read: No such file or directory"),
        ("merge none", "spectap: none: there is no such folder"),
        ("tap", "spectap tap: the following arguments are required: --upstream, --ledger"),
        # Not the value after it, as a URL that is none.
        ("measure --concurency 2", "spectap measure: unknown option --concurency"),
        ("tap --mode=fast", "spectap tap: unknown option --mode"),
        ("compare old .", "spectap: .: is not the folder of a run: it has no config.json"),
        ("compare old old", "/old: is compared with itself"),
        ("compare old", "spectap compare: the following arguments are required: NEW"),
        ("compare old same --fail-below 1.5", "must be a number of more than 0 and at most 1"),
        ("read none", "spectap: none: cannot be read: No such file or directory"),
        ("read empty", "spectap: empty: has no request"),
        ("read text", "spectap: text:1: "),
    ],
)
def test_what_is_expected_to_fail_fails_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    benchmark: Benchmark,
    results: Path,
    arguments: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in (("empty", ""), ("text", "one line\n")):
        (tmp_path / file).write_text(text, encoding="utf-8")
    environment = {"BENCHMARK_CONFIG": "none.json", "RESULTS_DIR": str(results)}
    assert message in benchmark(*arguments.split(), **environment).refusal()


def table(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(text))]


def test_read_prints_json_of_runs_and_of_other_ledgers(
    tmp_path: Path, benchmark: Benchmark
) -> None:
    ended = benchmark("read", str(RUN), str(lines(tmp_path, "a", "Base")), "--json")
    assert (ended.status, ended.err) == (Exit.DONE, "")
    of_run, end = json.JSONDecoder().raw_decode(ended.out)
    alone = json.loads(ended.out[end:])
    for content in (of_run, alone):
        jsonschema.validate(content, summary.schema())
    assert (of_run["experiment"], alone["experiment"]) == ("article", None)


def test_read_prints_a_row_of_figures_with_their_units(benchmark: Benchmark) -> None:
    requests = table(benchmark("read", str(RUN), "--csv", "requests").out)
    assert len(requests) == len((RUN / LEDGER).read_text(encoding="utf-8").splitlines())
    first = json.loads((RUN / LEDGER).read_text(encoding="utf-8").splitlines()[0])
    assert float(requests[0]["TTFT_seconds"]) == first["chunks"][0][0]
    cells = table(benchmark("read", str(RUN), "--csv", "cells").out)
    of_run = json.loads(benchmark("read", str(RUN), "--json").out)
    for row, cell in zip(
        cells, (c for case in of_run["cases"] for c in case["cells"]), strict=True
    ):
        assert float(row["TTFT_p90_seconds"]) == cell["measures"]["TTFT"]["p90"]
        compared = cell["comparison"] or {"verdict": {"finding": ""}}
        assert row["finding"] == compared["verdict"]["finding"]


def test_advise_and_compare_print_json(benchmark: Benchmark, recorded: Path, results: Path) -> None:
    (windows,) = json.loads(benchmark("advise", str(recorded), "--json").out)["windows"][:1]
    assert windows["measured"][0]["variant"] == "d0-k15"
    ended = benchmark(
        "compare", "old", "less", "--json", "--fail-below", "0.95", RESULTS_DIR=str(results)
    )
    assert ended.status == Exit.GATE_FAILED
    figures = json.loads(ended.out)["cells"][1]["figures"]
    assert figures["tokens per step"]["below"] is True


def test_the_summary_is_written_where_no_report_can_be(
    tmp_path: Path, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(RUN, tmp_path / "run")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delitem(sys.modules, "spectap.report.page", raising=False)
    monkeypatch.delattr("spectap.report.page", raising=False)
    ended = benchmark("report", str(folder))
    assert ended.out.endswith("no report: it needs jinja2: pip install 'spectap[report]'\n")
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8"))["version"] == 1


def test_help_lists_statuses_defaults_and_the_commands_of_people(
    benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = benchmark("--help").out
    assert [f"\n    {name} " in every for name in (*pod.COMMANDS, "measure")] == [False] * 3 + [
        True
    ]
    described = benchmark("measure", "--help").out
    for text in (
        "(default: 200)",
        *(f"  {e.value:<3} {e.meaning}" for e in Exit),
    ):
        assert text in described
    # Scripts rely on these.
    assert [*Exit] == [0, 1, 2, 3, 69, 75, 128]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert benchmark("--version") == (0, f"spectap {project['version']}\n", "")
