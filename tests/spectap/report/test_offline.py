"""What a report of jobs says besides: there was no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectap import metrics
from spectap.report import offline, results, run_view
from spectap.report.view import Entries, Table, View
from tests.spectap.offline.jobs import BASE_STEP, PREFILL, TIMES
from tests.spectap.offline.runs import merged

DEMOS = {
    "Base": {"e2e_model": TIMES, "token_generation_model": TIMES, "context_encoding_model": None},
    "vanilla": {"e2e_model": TIMES, "speculation_model": {**TIMES, "latency_ms_p50": 80.25}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return merged(tmp_path_factory.mktemp("jobs") / "run", demos=DEMOS)


@pytest.fixture(scope="module")
def view(folder: Path) -> View:
    return run_view.of_run(results.read(folder))


def test_it_names_the_source_of_each_figure(view: View) -> None:
    assert any("No server and no tap were there" in note for note in view.notes)
    (sources,) = (section for section in view.sections if section.anchor == "sources")
    (entries,) = (block for block in sources.blocks if isinstance(block, Entries))
    assert tuple((entry.term, entry.text) for entry in entries.items) == offline.SOURCES


def test_figures_are_those_that_were_generated(folder: Path) -> None:
    (case, _) = results.read(folder).summary.cases
    base = case.cell("Base")
    step, first = base.measure(metrics.INTER_CHUNK_LATENCY), base.measure(metrics.TTFT)
    assert step
    assert first
    assert step.p50 == pytest.approx(BASE_STEP, rel=0.01)
    assert first.p50 == pytest.approx(PREFILL)
    assert base.tokens_per_second == pytest.approx(40 / (PREFILL + 39 * BASE_STEP), rel=0.01)


def test_the_report_of_inference_demo_stands_beside_as_published(view: View) -> None:
    (section,) = (section for section in view.sections if section.anchor == "demo")
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    (rows,) = table.groups
    assert [row.labels for row in rows] == [
        *(("Base", "whole generation"), ("Base", "step")),
        *(("vanilla", "whole generation"), ("vanilla", "verification step")),
    ]
    latencies, throughput = rows[3].values
    assert latencies == ("80.2", "52.0", "53.0", "54.0", "55.0", "51.5")
    assert throughput == ("1,234",)
    (short,) = (text for text in view.remarks if text.startswith("vanilla by inference_demo"))
    assert "throughput 1,234 tokens/s; verification step" in short


def test_without_its_report_there_is_no_such_section(tmp_path: Path) -> None:
    run = results.read(merged(tmp_path / "run"))
    assert run.demos == {}
    assert [section.anchor for section in offline.sections(run)] == ["sources"]
    assert [*offline.in_short(run)] == []


def test_acceptance_by_position_is_known_and_nothing_advised(folder: Path) -> None:
    run = results.read(folder)
    assert run.advice is None
    assert run.acceptance
    for one in run.acceptance.acceptances:
        assert [position.number for position in one.positions] == [1, 2, 3, 4, 5, 6]
        assert one.positions[0].accepted == pytest.approx(0.8, abs=0.1)
