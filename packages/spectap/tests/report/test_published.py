"""What others have published stands beside what was measured, and changes nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from spectap import metrics
from spectap.report import page, published, run_view, terminal
from tests import generated_runs as generated
from tests.report import runs

FIGURES = (
    ("tokens-per-second", "Base", 100.25),
    ("tpot-ms", "SD", 15.0),
    ("ttft-ms", "SD", 200.0),
    ("request-speedup", "SD", 3.0),
    ("decoding-speedup", "SD", 3.0),
    ("throughput-speedup", "SD", 3.0),
    ("acceptance-length", "SD", 5.0),
)
SOURCE = f'https://example.org/{"figures/" * 10}?a=1&b="><b>'
LINK = SOURCE.replace("&", "&amp;").replace('"', "&#34;").replace("<", "&lt;").replace(">", "&gt;")
PUBLISHED = {
    "source": SOURCE,
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
    content = generated.config(generated.CASES[:1], rounds=rounds, output_tokens=2000)
    run = runs.read(tmp_path, content | {"published": [PUBLISHED]})
    [(table, conditions, source)] = published.tables(run.summary)
    assert (conditions, source) == ("Conditions: sonnets, TP 8. Source:", SOURCE)
    assert table.title == "Published: repetition at concurrency 4"
    *rows, absent = table.groups[0]
    assert absent.values == (("15",), ("not measured",), ("-",))
    cell = run.summary.cases[0].cell("SD")
    expected = {"acceptance-length": cell.steps and cell.steps.mean}
    # Without an interval it is the p50 of the other tables. The median that has one says so.
    for name, metric in (("tpot-ms", metrics.TIME_PER_OUTPUT_TOKEN), ("ttft-ms", metrics.TTFT)):
        sample = cell.measure(metric)
        assert sample
        expected[name] = 1000 * (sample.typical.point if sample.typical else sample.p50)
    for row, figure in zip(rows, run.config.published[0].figures, strict=False):
        (_,), (measured,), (ratio,) = row.values
        if ratio == "-":
            assert (rounds, row.labels[0][-7:]) == (2, "speedup")
            continue
        value = float(measured.rstrip("*").replace(",", ""))
        factor = float(ratio.split()[0].removesuffix("x"))
        assert factor == pytest.approx(value / figure.value, rel=0.02)
        assert ("(" in ratio) == (rounds == 6)
        assert measured.endswith("*") == (rounds == 6 and row.labels[0] in ("tpot-ms", "ttft-ms"))
        if figure.position:
            # Each draft is accepted as often as the one before it was.
            share = generated.ACCEPTANCE["structured"] ** figure.position
            assert value == pytest.approx(share, abs=0.03)
        elif known := expected.get(figure.figure):
            assert value == pytest.approx(known, rel=0.005)


def test_it_stands_in_both_forms_and_decides_nothing(tmp_path: Path) -> None:
    plain = runs.read(tmp_path / "plain", CONFIG)
    run = runs.read(tmp_path / "published", CONFIG | {"published": [PUBLISHED]})
    assert replace(run.summary, published=()) == plain.summary
    rehearsed = published.explanation(replace(run.summary, rehearsal=True))
    assert "measured figures are those of the stand-ins" in rehearsed
    view = run_view.of_run(run)
    assert "Published: repetition at concurrency 4" in [table.title for table, _ in view.details]
    assert published.explanation(run.summary) in view.remarks
    assert SOURCE in terminal.text(view, terminal.NARROW, verbose=True)
    html = page.html(run)
    assert "100.25" in runs.section(html, "published")
    assert html.index('id="cases"') < html.index('id="published"') < html.index('id="tables"')
    assert f'<a href="{LINK}">{LINK}</a>' in html
    assert not runs.section(page.html(plain), "published")
