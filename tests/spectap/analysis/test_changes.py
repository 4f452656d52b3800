"""Two runs against each other: seldom a false alarm, and what is lost is found."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from spectap.analysis.changes import Changes, Figure, Run, compare
from spectap.analysis.correctness import correctness
from spectap.analysis.summarise import summarise
from spectap.answer import Score
from spectap.config import Config
from spectap.errors import RunError
from spectap.record import Record
from spectap.report import changes as changes_view
from tests.spectap import generated_runs
from tests.spectap.generated_runs import ACCEPTANCE, CASES, Line

LOWER = {structure: share - 0.1 for structure, share in ACCEPTANCE.items()}


def told(**changes: Any) -> Line:
    return generated_runs.config(cases=CASES[::2]) | changes


def run(
    seed: int, acceptance: dict[str, float] = ACCEPTANCE, slower: float = 1.0, **changes: Any
) -> Run:
    content = told(**changes)
    lines = generated_runs.ledger(content, seed, acceptance)
    records = tuple(record(generated_runs.slowed(line, slower)) for line in lines)
    config = Config.model_validate(content)
    return Run(f"run-{seed}", config, records, summarise(config, records))


def record(line: Line) -> Record:
    return Record(**{**line, "chunks": tuple((time, tokens) for time, tokens in line["chunks"])})


def real(changes: Changes) -> list[Figure]:
    return [figure for _, figure, change in changes.judged if change.real]


def test_ten_points_of_acceptance_are_found() -> None:
    changes = compare(run(0), run(1, LOWER), 0.95)
    assert Figure.TOKENS_PER_STEP in real(changes)
    assert changes.failed
    for _, _, change in changes.judged:
        assert not change.real or change.ratio.point < 1


def test_another_node_is_no_difference() -> None:
    changes = compare(run(1), run(2, slower=1.5), 0.95)
    assert real(changes) == []
    assert not changes.failed
    for cell in changes.cells:
        times = cell.figures[Figure.TIME_PER_OUTPUT_TOKEN]
        assert times.ratio.point == pytest.approx(1.5, rel=0.2)
        assert not times.real
    assert any("Another node" in note for note in changes.notes)


def test_figures_are_those_of_the_runs() -> None:
    old, new = run(1), run(2)
    changes = compare(old, new)
    for cell in changes.cells:
        for one, side in ((old, "old"), (new, "new")):
            case = next(case for case in one.summary.cases if case.name == cell.test_case)
            own = case.cell(cell.variant)
            value = {figure: getattr(change, side) for figure, change in cell.figures.items()}
            assert value[Figure.TOKENS_PER_SECOND] == pytest.approx(own.tokens_per_second)
            if own.comparison:
                assert own.steps
                assert value[Figure.TOKENS_PER_STEP] == pytest.approx(own.steps.mean)
                speedup = own.comparison.speedup
                assert speedup
                assert value[Figure.SPEED_UP] == pytest.approx(speedup.point)
            else:
                assert not {Figure.TOKENS_PER_STEP, Figure.SPEED_UP} & value.keys()


def test_what_is_in_one_only_is_named() -> None:
    more = run(1, variants=generated_runs.TWO_WINDOWS[:2])
    changes = compare(run(2), more)
    assert any(note.startswith("Only in run-1: k3 under repetition at ") for note in changes.notes)
    assert any(note.startswith("Only in run-2: SD under repetition at ") for note in changes.notes)
    assert {cell.variant for cell in changes.cells} == {"Base"}


def test_what_both_were_told_differently_is_named() -> None:
    window = [generated_runs.ARTICLE[0], {**generated_runs.ARTICLE[1], "window": 5}]
    load = told()["load"] | {"rounds": 5}
    changes = compare(run(1), run(2, variants=window, load=load, bucket="another"))
    assert set(changes.settings) == {("variants.SD.window", "7", "5"), ("load.rounds", "6", "5")}


def test_a_rehearsal_is_no_measure_of_a_run() -> None:
    rehearsal = run(2, stand_in="golden endpoints")
    notes = compare(run(1), rehearsal).notes
    assert any("run-2 is a rehearsal and the other run is not" in note for note in notes)
    with pytest.raises(RunError, match="one is a rehearsal and the other is not"):
        compare(run(1), rehearsal, 0.95)


def test_runs_without_anything_in_common_are_refused() -> None:
    with pytest.raises(RunError, match="no variant has 3 rounds or more in both"):
        compare(run(1), only(run(2), variant="none"))
    cases = generated_runs.config(cases=CASES[1:2])["test_cases"]
    with pytest.raises(
        RunError, match=r'not comparable: test cases: \["open-ended", "repetition"\]'
    ):
        compare(run(1), run(2, test_cases=cases))


LINE = {"name": "open-ended", "structure": "open-ended", "headline": True, "line": "Else "}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"load": {"mean_output_tokens": 101}}, "mean_output_tokens"),
        ({"load": {"mean_input_tokens": 65}}, "mean_input_tokens"),
        ({"load": {"points": [{"concurrency": 8, "requests": 8}]}}, "load points"),
        ({"test_cases": [told()["test_cases"][0]]}, "test cases"),
        ({"test_cases": [told()["test_cases"][0], LINE]}, "open-ended.line"),
    ],
)
def test_runs_of_different_things_are_not_judged(changes: dict[str, Any], name: str) -> None:
    """Though the acceptance of one of them is lower, which would be a real loss."""
    changes = {
        field: told()[field] | value if isinstance(value, dict) else value
        for field, value in changes.items()
    }
    old, new = run(1), run(2, LOWER, **changes)
    with pytest.raises(RunError, match=f"run-1, run-2: they are not comparable: {name}: "):
        compare(old, new, 0.95)
    if name != "load points":
        seen = compare(old, new)
        assert [field for field, *_ in seen.incomparable] == [name]
        assert real(seen) == []
        assert changes_view.of_changes(seen).lead[0].startswith("NOT COMPARABLE: ")


def only(kept: Run, **wanted: str) -> Run:
    """The run with the requests alone that have these values."""
    records = tuple(
        one
        for one in kept.records
        if all(getattr(one, name) == value for name, value in wanted.items())
    )
    return kept._replace(records=records, summary=summarise(kept.config, records))


def test_a_gate_fails_where_what_it_guards_is_gone() -> None:
    baseline = compare(run(1), only(run(2), variant="Base"), 0.95)
    assert baseline.failed
    assert [*baseline.judged] == []
    assert set(baseline.gaps) >= {
        f"SD under {case} at concurrency-4: run-2 has no tokens per step and no speed-up."
        for case in ("repetition", "open-ended")
    }
    one_case = compare(run(1), only(run(2), case="repetition"), 0.95)
    assert one_case.failed
    assert not any(change.below for _, _, change in one_case.judged)
    assert one_case.gaps == (
        "SD under open-ended at concurrency-4: run-2 has no tokens per step and no speed-up.",
        "run-2 is not complete: requests are missing in it.",
    )
    no_baseline = compare(run(1), only(run(2), variant="SD"), 0.95)
    assert no_baseline.gaps[0].endswith("run-2 has no speed-up.")


def test_a_gate_fails_where_the_new_run_is_not_complete() -> None:
    whole = run(2)
    last = whole.records[-1]
    records = tuple(one for one in whole.records if one is not last)
    torn = whole._replace(records=records, summary=summarise(whole.config, records))
    changes = compare(run(1), torn, 0.95)
    assert changes.failed
    assert any("is not complete" in gap for gap in changes.gaps)
    assert not compare(run(1), torn).failed


def test_a_variant_with_another_name_is_known_by_what_it_is() -> None:
    base, own = generated_runs.ARTICLE
    named = [base, {**own, "name": "Qwen3-1-7B-k7"}]
    changes = compare(run(1), run(2, variants=named), 0.95)
    assert {cell.variant for cell in changes.cells} == {"Base", "SD"}
    assert changes.gaps == ()
    assert changes.notes[0] == (
        "SD of run-1 is compared with Qwen3-1-7B-k7 of run-2: mode, draft, window and batch are "
        "the same."
    )
    assert changes.settings == ()
    for others in ([{**named[1], "window": 5}], [named[1], {**own, "name": "again"}]):
        unlike = compare(run(1), run(2, variants=[base, *others]), 0.95)
        assert {cell.variant for cell in unlike.cells} == {"Base"}
        assert len(unlike.gaps) == 2


def test_goodput_is_compared() -> None:
    promised = {"tpot_p90_ms": 30}
    changes = compare(run(1, objectives=promised), run(2, objectives=promised))
    shares = {one.what: one for one in changes.shares}
    base = shares["repetition, Base at concurrency-4: goodput"]
    assert (base.old, base.new) == (0, 0)
    assert base.difference[0] < 0 < base.difference[1]
    assert shares["repetition, SD at concurrency-4: goodput"].new > 0.9


def test_rates_of_right_answers_are_compared() -> None:
    def checked(seed: int, wrong: int) -> Run:
        plain = run(seed)
        scores = [
            Score("GSM8K", variant, str(number), variant == "Base" or number >= wrong)
            for variant in ("Base", "SD")
            for number in range(100)
        ]
        found = correctness(plain.config, (), scores)
        return plain._replace(summary=dataclasses.replace(plain.summary, correctness=found))

    shares = {one.what: one for one in compare(checked(1, 0), checked(2, 30)).shares}
    own = shares["SD: GSM8K answers that are right"]
    assert (own.old, own.new) == (1, 0.7)
    low, high = own.difference
    assert low < -0.3 < high < 0
    base = shares["Base: GSM8K answers that are right"]
    assert math.isclose(base.difference[0], -base.difference[1])
