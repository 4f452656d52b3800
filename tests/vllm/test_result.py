"""The article's result on real vLLM: what speculation gains, where, and how it was counted.

How much is gained depends on what else the machine does. So a test fails where the report excludes
the expected gain; ``make bench-vllm`` holds the figures themselves against their bars.
"""

from tests.vllm.conftest import Rehearsed
from tests.vllm.gains import OPEN_ENDED, PREFILL, STRUCTURED, prefill, speedup


def test_every_request_succeeds_and_every_token_is_counted(rehearsed: Rehearsed) -> None:
    assert rehearsed.run.summary.complete
    for record in rehearsed.run.records:
        assert record.succeeded
        assert record.per_chunk


def test_structured_prompts_gain(rehearsed: Rehearsed) -> None:
    for case in rehearsed.cases("structured"):
        interval = speedup(case)
        assert interval.low > 1, case.name
        assert interval.high >= STRUCTURED, case.name


def test_open_ended_prompts_neither_gain_nor_lose_much(rehearsed: Rehearsed) -> None:
    for case in rehearsed.cases("open-ended"):
        interval = speedup(case)
        assert interval.low <= OPEN_ENDED[1], case.name
        assert interval.high >= OPEN_ENDED[0], case.name


def test_the_prefill_stays_as_it_is(rehearsed: Rehearsed) -> None:
    for case in rehearsed.run.summary.cases:
        interval = prefill(case, "SD")
        assert interval.low <= PREFILL[1], case.name
        assert interval.high >= PREFILL[0], case.name


def test_of_structured_prompts_answers_are_the_baselines_and_drafts_accepted(
    rehearsed: Rehearsed,
) -> None:
    structured = {case.name for case in rehearsed.cases("structured")}
    compared = [d for d in rehearsed.run.divergences if d.case in structured]
    assert {(d.case, d.unit, d.first) for d in compared} == {(n, "token", None) for n in structured}
    checks = {check.case: check for check in rehearsed.run.checks if check.variant == "SD"}
    assert structured <= checks.keys()
    for name in structured:
        by_server = {figure.name: figure.server for figure in checks[name].figures}
        assert by_server["accepted drafts"] / by_server["steps"] / 7 > 0.8, name


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


def test_llmperf_calls_a_faster_server_slower(rehearsed: Rehearsed) -> None:
    wrong = []
    for case in rehearsed.run.summary.cases:
        # By its formula.
        base, sd = (case.cell(name).measures["InterTokenLatency"].p50 for name in ("Base", "SD"))
        if speedup(case).low > 1 and sd > 1.06 * base:
            wrong.append(case.name)
    assert wrong
