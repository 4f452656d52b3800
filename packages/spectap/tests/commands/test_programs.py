"""What other programs rely on: JSON, CSV, exit statuses, the list of commands."""

import csv
import io
import json
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
from tests.commands.processes import ROOT, Benchmark
from tests.commands.test_recorded import RUN, lines


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
