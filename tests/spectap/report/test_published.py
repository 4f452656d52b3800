"""What others have published stands beside what was measured, and changes nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spectap.report import page, published, run_view
from tests.spectap import generated_runs as generated
from tests.spectap.report import runs

FIGURES = (
    ("tokens-per-second", "Base", 100.0),
    ("tpot-ms", "SD", 15.0),
    ("ttft-ms", "SD", 200.0),
    ("request-speedup", "SD", 3.0),
    ("decoding-speedup", "SD", 3.0),
    ("throughput-speedup", "SD", 3.0),
    ("acceptance-length", "SD", 5.0),
)
PUBLISHED = {
    "source": "https://example.org/figures",
    "conditions": "sonnets, TP 8.",
    "test_case": "repetition",
    "concurrency": generated.CONCURRENCY,
    "figures": [
        *({"figure": name, "variant": who, "value": value} for name, who, value in FIGURES),
        *(
            {"figure": "acceptance", "variant": "SD", "position": at, "value": 0.8}
            for at in (1, 2, 6)
        ),
        {"figure": "tpot-ms", "variant": "gone", "value": 15},
    ],
}
CONFIG = generated.config()


@pytest.mark.parametrize("rounds", [2, 6])
def test_a_ratio_is_the_measured_figure_by_the_published_one(tmp_path: Path, rounds: int) -> None:
    content = generated.config(rounds=rounds, output_tokens=2000)
    run = runs.read(tmp_path, content | {"published": [PUBLISHED]})
    [(table, source)] = published.tables(run.summary)
    assert source == "Conditions: sonnets, TP 8. Source: https://example.org/figures"
    assert table.title == "Published: repetition at concurrency 4"
    *rows, absent = table.groups[0]
    assert absent.values == (("-", "not measured"), ("15.0",))
    measured = {row.labels[0]: row.values[0][1].split()[0] for row in rows}
    cell = run.summary.cases[0].cell("SD")
    assert cell.steps
    assert measured["acceptance-length"] == f"{cell.steps.mean:.2f}"
    # Each draft is accepted as often as the one before it was.
    for position in (1, 2, 6):
        share = generated.ACCEPTANCE["structured"] ** position
        assert float(measured[f"acceptance {position}"]) == pytest.approx(share, abs=0.03)
    for row, figure in zip(rows, run.config.published[0].figures, strict=False):
        if row.values[0][0] == "-":
            assert (rounds, row.labels[0][-7:]) == (2, "speedup")
            continue
        ratio = float(row.values[0][0].split("x")[0])
        shown = float(row.values[0][1].split()[0].replace(",", ""))
        assert ratio == pytest.approx(shown / figure.value, abs=0.06)
        assert ("(" in row.values[0][0]) == (rounds == 6)


def test_it_stands_in_both_forms_and_decides_nothing(tmp_path: Path) -> None:
    plain = runs.read(tmp_path / "plain", CONFIG)
    run = runs.read(tmp_path / "published", CONFIG | {"published": [PUBLISHED]})
    assert replace(run.summary, published=()) == plain.summary
    assert run.advice == plain.advice
    view = run_view.of_run(run)
    assert [table.title for table, _ in view.tables][-1] == "Published: repetition at concurrency 4"
    assert published.EXPLANATION in view.remarks
    assert "3.00" in runs.section(page.html(run), "published")
    assert not runs.section(page.html(plain), "published")
