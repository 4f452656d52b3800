"""The summary of generated ledgers of every kind: its text, and what holds of it."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from syrupy.assertion import SnapshotAssertion

import spectap
from spectap.analysis import summary
from spectap.analysis.summarise import summarise, summarise_ledgers
from spectap.analysis.summary import Summary
from spectap.analysis.verdicts import Finding
from tests.analysis import ledgers
from tests.snapshots import TextSnapshot


@pytest.mark.parametrize("name", ledgers.LEDGERS)
def test_every_figure_and_sentence(name: str, snapshot: SnapshotAssertion) -> None:
    config, records = ledgers.LEDGERS[name]()
    assert ledgers.text(summarise(config, records)) == snapshot(extension_class=TextSnapshot)


@pytest.mark.parametrize("name", ["two windows, no price", "loads", "prompts"])
def test_ledgers_alone(name: str, snapshot: SnapshotAssertion) -> None:
    _, records = ledgers.LEDGERS[name]()
    assert ledgers.text(summarise_ledgers(records)) == snapshot(extension_class=TextSnapshot)


def test_a_ledger_of_one_round_is_cut_into_blocks_of_time(snapshot: SnapshotAssertion) -> None:
    _, records = ledgers.ledger(requests=80, rounds=1)
    assert ledgers.text(summarise_ledgers(records)) == snapshot(extension_class=TextSnapshot)
    assert summarise_ledgers([r for r in records if r.round == 0]).cases == ()


@pytest.mark.parametrize(("later", "judged"), [(0.4, True), (0.6, False), (5.0, False)])
def test_ledgers_of_different_times_get_no_verdict(later: float, judged: bool) -> None:
    records = [r for r in ledgers.ledger(requests=80, rounds=1)[1] if r.round > 0]
    ends = {v: max(r.sent + r.end for r in records if r.variant == v) for v in ("Base", "SD")}
    shorter = min(ends.values()) - min(r.sent for r in records)
    # Both begin at once, so the faster side, which is the one that is moved, ends first.
    move = max(ends.values()) - min(ends.values()) + later * shorter
    moved = [replace(r, sent=r.sent + move) if r.variant == "SD" else r for r in records]
    ((_, compared),) = summarise_ledgers(moved).cases[0].compared
    assert (compared.speed is not None) == judged
    assert (compared.verdict.finding is Finding.SEQUENTIAL) != judged


@pytest.fixture(scope="module")
def article() -> Summary:
    return summarise(*ledgers.LEDGERS["article"]())


def test_the_warm_up_a_pause_and_the_order_change_nothing(article: Summary) -> None:
    config, records = ledgers.LEDGERS["article"]()
    slow = [replace(r, end=1e6) if r.round == 0 else r for r in records]
    assert summarise(config, slow) == article
    resumed = [replace(r, sent=r.sent + 4096 * r.round) for r in reversed(records)]
    again = summarise(config, resumed)
    for case, expected_case in zip(again.cases, article.cases, strict=True):
        for cell, expected in zip(case.cells, expected_case.cells, strict=True):
            assert cell.tokens_per_second == pytest.approx(expected.tokens_per_second)


def test_a_failed_attempt_in_a_round_that_does_not_count_is_not_paid_for() -> None:
    config, records = ledgers.LEDGERS["a range that ended early"]()
    fifth = [r for r in records if r.round == 5]
    failed = [replace(r, round=6, error="reset", output_tokens=None) for r in fifth]
    again = [replace(r, round=6, attempt=2) for r in fifth[:1]]
    cases = [summarise(config, each).cases for each in (records, [*records, *failed, *again])]
    costs = [[c.cost and c.cost.interval for case in of for _, c in case.compared] for of in cases]
    assert costs[0][0] == costs[1][0] is not None


def test_summary_is_json(article: Summary) -> None:
    content = json.loads(summary.to_json(article))
    published = json.loads((Path(spectap.__file__).parent / "summary.schema.json").read_text())
    assert published == summary.schema()
    jsonschema.validate(content, published)
    assert content["version"] == 1
