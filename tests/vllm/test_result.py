"""The article's result on real vLLM: what speculation gains, where, and how it was counted."""

from __future__ import annotations

import re
import statistics

from benchmark.analysis.summary import Case, Cell
from benchmark.metrics import TIME_PER_OUTPUT_TOKEN, TTFT, Metric
from tests.vllm.conftest import Rehearsed


def median(cell: Cell, metric: Metric) -> float:
    sample = cell.measure(metric)
    assert sample is not None
    return sample.p50


def ratio(case: Case, metric: Metric = TIME_PER_OUTPUT_TOKEN) -> float:
    """SD's median by that of Base."""
    return median(case.cell("SD"), metric) / median(case.cell("Base"), metric)


def test_every_request_succeeds_and_every_token_is_counted(rehearsed: Rehearsed) -> None:
    assert rehearsed.run.summary.complete
    for record in rehearsed.run.records:
        assert record.succeeded
        assert record.per_chunk


def test_structured_prompts_gain(rehearsed: Rehearsed) -> None:
    for case in rehearsed.cases("structured"):
        assert ratio(case) <= 1 / 2.5, case.name


def test_open_ended_prompts_neither_gain_nor_lose_much(rehearsed: Rehearsed) -> None:
    for case in rehearsed.cases("open-ended"):
        assert 0.7 <= ratio(case) <= 1.4, case.name


def test_the_prefill_stays_as_it_is(rehearsed: Rehearsed) -> None:
    # Over all cases: six prefills of one, on a core that others use too, scatter by a quarter.
    ratios = [ratio(case, TTFT) for case in rehearsed.run.summary.cases]
    assert 1 / 1.2 <= statistics.geometric_mean(ratios) <= 1.2


def test_drafts_of_structured_prompts_are_accepted(rehearsed: Rehearsed) -> None:
    structured = {case.name for case in rehearsed.cases("structured")}
    checks = {check.case: check for check in rehearsed.run.checks if check.positions}
    assert structured <= checks.keys()
    for name in structured:
        by_server = [server for _, server in checks[name].positions]
        assert len(by_server) == 7
        assert sum(by_server) / 7 > 0.8, name


def test_ledger_and_server_count_the_same(rehearsed: Rehearsed) -> None:
    compared = {(check.case, check.variant): check for check in rehearsed.run.checks}
    cells = [cell for case in rehearsed.run.summary.cases for cell in case.cells]
    assert compared.keys() == {(cell.test_case, cell.variant) for cell in cells}
    for (case, variant), check in compared.items():
        figures = {figure.name: figure for figure in check.figures}
        assert figures["tokens"].ledger == figures["tokens"].server
        assert ("accepted drafts" in figures) == (variant == "SD"), case
        # Accepted drafts within 1 %, but for what an answer's length cut off its last step.
        assert check.failures == ()


def published(rehearsed: Rehearsed, case: Case, variant: str = "Base") -> float:
    median = rehearsed.run.published.median(case.cell(variant))
    assert median is not None
    return median


def test_llmperf_calls_a_faster_server_slower(rehearsed: Rehearsed) -> None:
    wrong = [
        case.name
        for case in rehearsed.run.summary.cases
        if ratio(case) < 1 and published(rehearsed, case, "SD") > 1.06 * published(rehearsed, case)
    ]
    assert wrong
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    (chart,) = re.findall(r"<h3>[^<]*the truth and llmperf</h3>(.*?)</figure>", page, re.DOTALL)
    bold = re.findall(r'<text style="font-weight: 700[^>]*>[\d.]+x slower', chart)
    assert len(bold) >= len(wrong)


def test_the_whole_report_is_drawn(rehearsed: Rehearsed) -> None:
    page = (rehearsed.run.folder / "report.html").read_text(encoding="utf-8")
    assert "Not drawn:" not in page
    assert "The ledger against the server's own counters" in page
    assert len(rehearsed.run.divergences) == len(rehearsed.run.summary.cases)


def test_what_differs_from_the_pods_is_said(rehearsed: Rehearsed) -> None:
    for difference in ("--tensor-parallel-size", "--override-neuron-config", "one core, number"):
        assert difference in rehearsed.said
