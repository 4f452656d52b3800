"""A metric is one entry of the catalogue: it then stands wherever figures are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectap import metrics
from spectap.metrics import Metric
from spectap.report import figures, results, terminal
from spectap.report.page import write_results
from tests.spectap import generated_runs as generated

FIRST_GAP = Metric(
    name="FirstGap",
    unit="Seconds",
    title="Time from the first chunk to the second",
    short="First gap",
    definition="What a reader waits for the second piece of an answer.",
    values=lambda record: metrics.inter_chunk_latencies(record)[:1],
    printed="ms",
    percentiles=("p50",),
)


def test_an_added_metric_is_in_summary_table_report_and_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "METRICS", (*metrics.METRICS, FIRST_GAP))
    monkeypatch.setattr(figures, "draw", lambda run: ())
    configuration = generated.config()
    folder = generated.write(tmp_path, configuration, generated.ledger(configuration))
    page = write_results(results.read(folder)).read_text(encoding="utf-8")

    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    measure = summary["cases"][0]["cells"][0]["measures"]["FirstGap"]
    assert measure["count"] == 24
    assert measure["p50"] == pytest.approx(generated.BASE_STEP, rel=0.05)
    printed = f"{measure['p50'] * 1000:.1f}"

    table = terminal.render(folder, 80)
    assert "First gap ms" in table
    row = next(line for line in table.split("First gap ms")[1].splitlines() if " Base " in line)
    assert printed in row.split()

    assert ">First gap, ms</th>" in page
    assert f">{printed}</td>" in page
    assert f"<dt>First gap</dt><dd>{FIRST_GAP.title}. {FIRST_GAP.definition}</dd>" in page
