"""Two runs against each other: seldom a false alarm, and what is lost is found."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from benchmarks.comparing import SamePrompts
from spectap.analysis.changes import Changes, Figure, Run
from spectap.analysis.compare import compare
from spectap.analysis.correctness import correctness
from spectap.analysis.summarise import summarise
from spectap.errors import RunError
from spectap.inputs.config import Config
from spectap.inputs.published import Figure as Published
from spectap.inputs.published import Publication, PublishedFigure
from tests import generated_runs
from tests.analysis.test_correctness import all_but, answers, good
from tests.generated_runs import ACCEPTANCE, ARTICLE, CASES, Line

BASE, SD = ARTICLE
LOWER = {structure: share - 0.1 for structure, share in ACCEPTANCE.items()}
LOAD: Line = generated_runs.config()["load"]
KNOWN: Line = generated_runs.config(cases=CASES[::2])
PUBLICATION = Publication(
    source="https://example.org",
    conditions="TP 8",
    test_case="repetition",
    concurrency=4,
    figures=(PublishedFigure(figure=Published.TPOT, variant="SD", value=15),),
)
ELSE = {"name": "open-ended", "structure": "open-ended", "headline": True, "line": "Else "}


def run(
    seed: int,
    acceptance: dict[str, float] = ACCEPTANCE,
    slower: Callable[[Line], float] = lambda _: 1.0,
    **changes: Any,
) -> Run:
    """``slower``: how many times as long a request takes."""
    content = KNOWN | changes
    lines = generated_runs.ledger(content, seed, acceptance)
    records = [generated_runs.record(generated_runs.slowed(line, slower(line))) for line in lines]
    return of(f"run-{seed}", Config.model_validate(content), records)


def of(name: str, config: Config, records: Any) -> Run:
    return Run(name, config, tuple(records), summarise(config, records))


@functools.cache
def old() -> Run:
    return run(1)


@functools.cache
def new() -> Run:
    return run(2)


def only(source: Run, **fields: str) -> Run:
    """The run with the requests alone that have these values."""
    selected = [
        record
        for record in source.records
        if all(getattr(record, name) == value for name, value in fields.items())
    ]
    return of(source.name, source.config, selected)


def differing(changes: Changes) -> list[Figure]:
    return [figure for _, figure, change in changes.judged if change.differs]


def test_ten_points_of_acceptance_are_found() -> None:
    changes = compare(old(), run(2, LOWER), 0.95)
    assert Figure.TOKENS_PER_STEP in differing(changes)
    assert changes.failed
    for _, _, change in changes.judged:
        assert not change.differs or change.ratio.point < 1


def test_prompts_that_both_runs_sent_are_compared_with_themselves() -> None:
    """Between prompts tokens a step differ by three times: 10 % fewer would be lost in that."""
    same = SamePrompts("")
    first, again, fewer = same.run(1), same.run(2), same.run(3, lower=0.1)
    assert not compare(first, again, 0.95).failed
    assert compare(first, fewer, 0.95).failed
    assert reach(compare(first, fewer), Figure.TOKENS_PER_STEP) < 0.05
    others = [dataclasses.replace(r, prompt=f"other {r.prompt}") for r in fewer.records]
    unpaired = compare(first, of("others", fewer.config, others), 0.95)
    assert reach(unpaired, Figure.TOKENS_PER_STEP) > 0.1


def test_another_node_is_no_difference() -> None:
    changes = compare(old(), run(2, slower=lambda _: 1.5), 0.95)
    assert differing(changes) == []
    assert not changes.failed
    for cell in changes.cells:
        times = cell.figures[Figure.TIME_PER_OUTPUT_TOKEN]
        assert times.ratio.point == pytest.approx(1.5, rel=0.2)
        assert not times.differs
    for _, _, change in changes.judged:
        assert change.seen_below is not None
        assert change.detectable > 0
        assert change.seen_below < 0.95


def reach(changes: Changes, figure: Figure) -> float:
    """How far the interval of the first cell that has the figure reaches, as a logarithm."""
    change = next(cell.figures[figure] for cell in changes.cells if figure in cell.figures)
    return math.log(change.ratio.high / change.ratio.low) / 2


def test_a_launch_error_is_in_times_and_speed_ups_and_in_no_tokens_a_step() -> None:
    plain, stated = (compare(old(), new(), launch_error=error) for error in (0, 0.2))
    assert reach(stated, Figure.TOKENS_PER_STEP) == reach(plain, Figure.TOKENS_PER_STEP)
    # Two servers on each side of a speed-up, and one on each side of a time.
    assert reach(stated, Figure.SPEED_UP) == pytest.approx(1.96 * 0.2 * 2, rel=0.1)
    assert reach(stated, Figure.TTFT) == pytest.approx(1.96 * 0.2 * math.sqrt(2), rel=0.1)
    assert stated.launch_error == 0.2


def test_launches_of_a_run_are_its_units() -> None:
    def launched(seed: int, *levels: float) -> Run:
        def slower(line: Line) -> float:
            return levels[(line["round"] - 1) // 2] if line["variant"] == "SD" else 1.0

        measured = run(seed, slower=slower, load=LOAD | {"rounds": 6, "launches": 3})
        records = [dataclasses.replace(r, launch=(r.round + 1) // 2) for r in measured.records]
        return of(measured.name, measured.config, records)

    changes = compare(launched(1, 1.0, 1.0, 1.0), launched(2, 0.9, 1.0, 1.1))
    assert changes.launch_error is None
    same = compare(launched(1, 1.0, 1.0, 1.0), launched(2, 1.0, 1.0, 1.0))
    assert reach(changes, Figure.SPEED_UP) > 2 * reach(same, Figure.SPEED_UP)


def test_figures_are_those_of_the_runs() -> None:
    for cell in compare(old(), new()).cells:
        for measured, side in ((old(), "old"), (new(), "new")):
            case = next(case for case in measured.summary.cases if case.name == cell.test_case)
            expected = case.cell(cell.variant)
            value = {figure: getattr(change, side) for figure, change in cell.figures.items()}
            assert value[Figure.TOKENS_PER_SECOND] == pytest.approx(expected.tokens_per_second)
            judged = Figure.TOKENS_PER_STEP, Figure.SPEED_UP
            assert [figure in value for figure in judged] == [expected.comparison is not None] * 2
            if expected.comparison and expected.comparison.speedup and expected.steps:
                speed_up = expected.comparison.speedup.point
                assert [value[f] for f in judged] == pytest.approx([expected.steps.mean, speed_up])


@pytest.mark.parametrize(
    ("changes", "threshold"),
    [
        pytest.param({"variants": generated_runs.TWO_WINDOWS[:2]}, None, id="another variant"),
        pytest.param({"variants": [BASE, SD | {"name": "k7"}]}, 0.95, id="another name"),
        pytest.param(
            {
                "variants": [BASE, SD | {"window": 5}],
                "load": LOAD | {"rounds": 5, "points": [{"concurrency": 4, "requests": 5}]},
                "bucket": "another",
                "alternate": True,
                "machines": 2,
                "objectives": {"tpot_p90_ms": 30},
                "published": (PUBLICATION,),
            },
            0.95,
            id="settings",
        ),
        pytest.param({"stand_in": "golden endpoints"}, None, id="a rehearsal"),
    ],
)
def test_what_is_said_of_runs_that_differ(
    changes: dict[str, Any], threshold: float | None, snapshot: SnapshotAssertion
) -> None:
    comparison = compare(old(), run(2, **changes), threshold)
    variants = sorted({cell.variant for cell in comparison.cells})
    settings = sorted(map(str, comparison.settings))
    assert (variants, settings, comparison.notes, comparison.gaps) == snapshot


def test_runs_that_do_not_compare_are_refused() -> None:
    with pytest.raises(RunError, match="one is a rehearsal and the other is not"):
        compare(old(), run(2, stand_in="golden endpoints"), 0.95)
    with pytest.raises(RunError, match="no variant has 3 rounds or more in both"):
        compare(old(), only(new(), variant="none"))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"load": LOAD | {"mean_output_tokens": 101}}, "mean_output_tokens: 100 before, 101 now"),
        (
            {"load": LOAD | {"points": [{"concurrency": 8, "requests": 8}]}},
            "load points: concurrency 4 only before, concurrency 8 only now",
        ),
        ({"test_cases": KNOWN["test_cases"][:1]}, "test cases: open-ended only before"),
        ({"test_cases": [KNOWN["test_cases"][0], ELSE]}, "open-ended.line: "),
    ],
)
def test_runs_of_different_things_are_not_judged(changes: dict[str, Any], text: str) -> None:
    """Though the acceptance of one of them is lower, which would be a real loss."""
    second = run(2, LOWER, **changes)
    with pytest.raises(RunError, match=f"run-1, run-2: they are not comparable: {text}"):
        compare(old(), second, 0.95)
    if "load points" not in text:
        comparison = compare(old(), second)
        (difference,) = map(str, comparison.incomparable)
        assert difference.startswith(text)
        assert differing(comparison) == []


@pytest.mark.parametrize("wanted", [{"variant": "Base"}, {"case": "repetition"}, {"variant": "SD"}])
def test_a_gate_fails_where_what_it_guards_is_gone(
    wanted: dict[str, str], snapshot: SnapshotAssertion
) -> None:
    gate = compare(old(), only(new(), **wanted), 0.95)
    assert gate.failed
    assert not any(change.below for _, _, change in gate.judged)
    assert gate.gaps == snapshot
    assert not compare(old(), only(new(), case="repetition")).failed
    (gap,) = compare(only(old(), variant="Base"), new(), 0.95).gaps
    assert gap.endswith("so there is nothing to guard.")


def test_shares_are_compared() -> None:
    def checked(seed: int, wrong: int) -> Run:
        plain = run(seed, objectives={"tpot_p90_ms": 30})
        right = {"Base": good, "SD": all_but(*range(wrong))}
        of_case = [dataclasses.replace(a, case="repetition") for a in answers(right, prompts=100)]
        checks = correctness(plain.config, of_case)
        return plain._replace(summary=dataclasses.replace(plain.summary, correctness=checks))

    shares = {share.name: share for share in compare(checked(1, 0), checked(2, 30)).shares}
    speculative = shares["repetition, SD: tool calls that are right"]
    assert (speculative.old, speculative.new) == (1, 0.7)
    assert speculative.difference[0] < -0.3 < speculative.difference[1] < 0
    base = shares["repetition, Base: tool calls that are right"]
    assert math.isclose(base.difference[0], -base.difference[1])
    goodput = shares["repetition, Base at concurrency-4: goodput"]
    assert (goodput.old, goodput.new) == (0, 0)
    assert goodput.difference[0] < 0 < goodput.difference[1]
    assert shares["repetition, SD at concurrency-4: goodput"].new > 0.9
    assert len(compare(checked(1, 0), new()).shares) == 0
