"""Any number of variants: each is held against its own baseline, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from spectap.analysis.summarise import summarise, summarise_ledgers
from spectap.analysis.summary import Cell, Finding, Summary
from spectap.config import Config
from spectap.ledger import read_ledger
from spectap.record import Record
from tests.spectap import generated_runs as generated

Line = generated.Line


def measured(folder: Path, variants: Iterable[Line]) -> tuple[Config, list[Record]]:
    configuration = generated.config(variants=variants, requests=4, rounds=4)
    generated.write(folder, configuration, generated.ledger(configuration))
    return Config.model_validate(configuration), read_ledger(folder / "ledger.jsonl")


def summed_up(folder: Path, variants: Iterable[Line]) -> Summary:
    return summarise(*measured(folder, variants))


def baselines(summary: Summary) -> dict[str, str | None]:
    """Of the first case, by variant."""
    cells = summary.cases[0].cells
    return {
        cell.variant: None if cell.comparison is None else cell.comparison.baseline
        for cell in cells
    }


def test_a_cell_for_each_variant_in_their_order(tmp_path: Path) -> None:
    summary = summed_up(tmp_path, generated.TWO_WINDOWS)
    assert summary.subject == "k3, k7 against Base"
    assert baselines(summary) == {"Base": None, "k3": "Base", "k7": "Base"}
    for case in summary.cases:
        assert [cell.variant for cell in case.cells] == ["Base", "k3", "k7"]
        assert {cell.test_case for cell in case.cells} == {case.name}
    sentences = [found.verdict.sentence for _, found in summary.cases[0].compared]
    assert [sentence.split(" is ")[0] for sentence in sentences] == ["k3", "k7"]


def figures(cell: Cell) -> tuple[object, ...]:
    """All but the verdict, which depends on how much else the report claims and knows."""
    found = cell.comparison
    compared = found and (
        found.baseline,
        found.by_time_per_output_token,
        found.by_end_to_end,
        found.by_throughput,
        found.speed and found.speed.interval,
        found.cost and found.cost.interval,
    )
    return cell.requests, cell.errors, cell.measures, cell.steps, compared


def test_a_third_variant_changes_no_figure_of_the_others(tmp_path: Path) -> None:
    config, records = measured(tmp_path, generated.TWO_WINDOWS)
    kept = [one for one in config.variants if one.name != "k3"]
    without = summarise(config.model_copy(update={"variants": tuple(kept)}), records)
    for case, other in zip(summarise(config, records).cases, without.cases, strict=True):
        kept_cells = (case.cell("Base"), case.cell("k7"))
        assert [*map(figures, kept_cells)] == [*map(figures, other.cells)]


def test_each_is_compared_with_its_own_baseline(tmp_path: Path) -> None:
    summary = summed_up(tmp_path, generated.TWO_BASELINES)
    assert summary.subject == "k7 against Base; k7-b8 against Base-b8"
    assert baselines(summary) == {
        **{"Base": None, "k7": "Base"},
        **{"Base-b8": None, "k7-b8": "Base-b8"},
    }
    (_, first), (_, second) = summary.cases[0].compared
    assert " faster than Base for one request" in first.verdict.sentence
    assert " faster than Base-b8 for one request" in second.verdict.sentence


def test_what_is_compared_with_a_baseline_that_was_not_measured_has_no_verdict(
    tmp_path: Path,
) -> None:
    config, records = measured(tmp_path, generated.TWO_BASELINES)
    summary = summarise(config, [one for one in records if one.variant != "Base-b8"])
    for case in summary.cases:
        (_, first), (_, second) = case.compared
        assert first.verdict.finding is not Finding.NOT_MEASURED
        assert second.verdict.finding is Finding.NOT_MEASURED
        assert second.verdict.sentence == "No verdict: Base-b8 was not measured."
        assert second.speedup is None


def test_a_baseline_alone_is_compared_with_nothing(tmp_path: Path) -> None:
    summary = summed_up(tmp_path, generated.ARTICLE[:1])
    assert summary.subject == "Base"
    assert baselines(summary) == {"Base": None}
    assert summary.complete
    assert summary.notes == ()


def test_without_a_price_there_is_no_cost(tmp_path: Path) -> None:
    config, records = measured(tmp_path, generated.ARTICLE)
    summary = summarise(config.model_copy(update={"cost": None}), records)
    assert summary.cost_denominator is None
    for cell in (cell for case in summary.cases for cell in case.cells):
        assert cell.tokens_per_second_interval is not None
        assert cell.usd_per_million_output_tokens is None
        assert cell.usd_per_million_output_tokens_interval is None


class TestLedgersAlone:
    def test_the_first_variant_is_the_baseline(self, tmp_path: Path) -> None:
        _, records = measured(tmp_path, generated.TWO_WINDOWS)
        summary = summarise_ledgers(records)
        assert baselines(summary) == {"Base": None, "k3": "Base", "k7": "Base"}
        assert [case.name for case in summary.cases] == ["repetition", "counting", "open-ended"]

    def test_figures_are_those_of_the_run(self, tmp_path: Path) -> None:
        config, records = measured(tmp_path, generated.TWO_WINDOWS)
        alone, whole = summarise_ledgers(records), summarise(config, records)
        for case, other in zip(alone.cases, whole.cases, strict=True):
            for cell, known in zip(case.cells, other.cells, strict=True):
                assert figures(cell) == figures(known)
                # The concurrency is not known: the time with empty slots counts.
                assert cell.tokens_per_second is not None
                assert known.tokens_per_second is not None
                assert 0.8 < cell.tokens_per_second / known.tokens_per_second < 1

    def test_what_is_not_known_is_left_out(self, tmp_path: Path) -> None:
        _, records = measured(tmp_path, generated.ARTICLE)
        content = json.loads(summarise_ledgers(records).to_json())
        for name in ("experiment", "model", "cost_denominator"):
            assert content[name] is None
        assert content["loads"] == []
        cell = content["cases"][0]["cells"][1]
        for name in ("load", "expected", "usd_per_million_output_tokens"):
            assert cell[name] is None

    @pytest.mark.parametrize("round_number", [None, 0])
    def test_nothing_recorded_but_a_warm_up(self, tmp_path: Path, round_number: int | None) -> None:
        _, records = measured(tmp_path, generated.ARTICLE)
        summary = summarise_ledgers([one for one in records if one.round == round_number])
        assert (summary.cases, summary.variants, summary.run) == ((), (), None)
