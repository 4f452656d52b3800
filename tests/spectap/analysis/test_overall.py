"""One number for several test cases, and what a matched baseline explains."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from spectap.analysis.contrasts import Question
from spectap.analysis.overall import overall
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Summary
from spectap.config import Config
from spectap.ledger import read_ledger
from tests.spectap import generated_runs as generated
from tests.spectap.analysis.test_contrasts import paced

STEADY = [1.0, 1.0, 1.0, 1.0]


def test_it_is_the_geometric_mean_of_the_cases() -> None:
    sides = {
        "four times": (paced(0.25, STEADY), paced(1.0, STEADY)),
        "alike": (paced(1.0, STEADY), paced(1.0, STEADY)),
    }
    found = overall(sides)
    assert math.exp(found[Question.SPEED].log) == pytest.approx(2)
    assert math.exp(found[Question.COST].log) == pytest.approx(2)


def test_a_case_counts_once_however_many_rounds_it_has() -> None:
    sides = {
        "four times": (paced(0.25, STEADY * 5), paced(1.0, STEADY * 5)),
        "alike": (paced(1.0, STEADY), paced(1.0, STEADY)),
    }
    assert math.exp(overall(sides)[Question.SPEED].log) == pytest.approx(2)


def test_what_differs_from_round_to_round_for_all_cases_is_in_its_error() -> None:
    uneven = [0.8, 1.2, 0.9, 1.1]
    one = {"a": (paced(0.5, uneven), paced(1.0, STEADY))}
    alike = one | {"b": one["a"], "c": one["a"]}
    # Three cases that share their rounds' luck are no surer than one.
    assert overall(alike)[Question.SPEED].error == pytest.approx(overall(one)[Question.SPEED].error)


def test_it_is_no_surer_than_the_test_case_with_the_fewest_rounds() -> None:
    uneven = [0.8, 1.2, 0.9, 1.1]
    sides = {
        "long": (paced(0.5, uneven * 5), paced(1.0, STEADY * 5)),
        "short": (paced(0.5, uneven[:3]), paced(1.0, STEADY[:3])),
    }
    assert overall(sides)[Question.SPEED].units == 3


def test_nothing_measured_has_none() -> None:
    assert overall({}) == {}


Line = generated.Line
WITHOUT = {"without": "async scheduling"}
MATCHED = generated.ARTICLE[0] | WITHOUT | {"name": "Base-matched"}
SLOWER = 1.5


def summed_up(folder: Path, *, matched: bool) -> Summary:
    """Of one and the same run, with its matched baseline, which is ``SLOWER``, or without."""
    base, speculative = generated.ARTICLE
    configuration = generated.config(variants=[base, speculative | WITHOUT, MATCHED], rounds=4)
    lines = [
        generated.slowed(line, SLOWER) if line["variant"] == MATCHED["name"] else line
        for line in generated.ledger(configuration)
    ]
    if not matched:
        configuration["variants"].pop()
        lines = [line for line in lines if line["variant"] != MATCHED["name"]]
    generated.write(folder, configuration, lines)
    return summarise(Config.model_validate(configuration), read_ledger(folder / "ledger.jsonl"))


def explanation(summary: Summary) -> str:
    (note,) = [note for note in summary.notes if "async scheduling" in note]
    return note


def test_a_matched_baseline_explains_and_decides_nothing(tmp_path: Path) -> None:
    alone, beside = (summed_up(tmp_path / str(it), matched=it) for it in (False, True))
    assert beside.subject == "SD against Base"
    for summary in (alone, beside):
        compared = {cell.variant for case in summary.cases for cell, _ in case.compared}
        assert compared == {"SD"}
    for one, other in zip(alone.cases, beside.cases, strict=True):
        ((_, mine), (_, others)) = one.compared[0], other.compared[0]
        assert (mine.speed, mine.cost) == (others.speed, others.cost)
    assert alone.overall == beside.overall


def test_its_ratio_stands_beside_that_of_the_baseline_that_decides(tmp_path: Path) -> None:
    said = explanation(summed_up(tmp_path, matched=True))
    assert said.startswith(
        "SD is served without async scheduling, which speculation turns off, and Base with it, as "
        "one would serve it. Base-matched is served without it, too, and decides nothing. "
    )
    explaining, deciding = (
        float(said.partition(f" as fast as {name} ")[0].split(" ")[-2].removesuffix("x"))
        for name in ("Base-matched", "Base")
    )
    assert explaining / deciding == pytest.approx(SLOWER, rel=0.1)


def test_where_none_was_measured_the_report_says_so(tmp_path: Path) -> None:
    assert explanation(summed_up(tmp_path, matched=False)).endswith(
        "What that costs was not measured, because no devices were left for a baseline without it."
    )


def test_variants_that_are_served_alike_need_no_explanation(tmp_path: Path) -> None:
    configuration = generated.config(rounds=4)
    generated.write(tmp_path, configuration, generated.ledger(configuration))
    summary = summarise(
        Config.model_validate(configuration), read_ledger(tmp_path / "ledger.jsonl")
    )
    assert not [note for note in summary.notes if "served without" in note]
