"""What advice says, of records made by hand and of small sweeps."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from rehearsal.golden.cost import Linear
from spectap.analysis.advice.advice import Advice
from spectap.analysis.advice.advise import advise
from spectap.analysis.summarise import summarise
from spectap.config import Config
from spectap.errors import ConfigError
from spectap.record import Record
from tests.bench.sweeps import Sweep
from tests.spectap import samples

SMALL = Sweep(
    "small",
    Linear(0.02),
    (0.03, 0.06),
    {"structured": (0.9, 0.95), "open-ended": (0.5, 0.6)},
    windows=(3, 7),
    loads=(1, 4),
    rounds=4,
    tokens=200,
)


@functools.cache
def small() -> Advice:
    return advise(SMALL.config(), SMALL.records())


def config(**changes: Any) -> Config:
    """Base and k4, which verifies 3 drafts a step."""
    k4 = {"name": "k4", "endpoint": "http://127.0.0.1:2/v1", "baseline": "Base", "mode": "fused"}
    base = {"name": "Base", "endpoint": "http://127.0.0.1:1/v1"}
    return samples.config(
        variants=[base, {**k4, "window": 4, "drafts_per_step": 3, **changes}],
        test_cases=[{"name": "counting", "line": "counting ", "structure": "structured"}],
    )


def answers(sizes: Sequence[int], variant: str = "k4", **changes: Any) -> list[Record]:
    """The same answer in three rounds; each step takes 0.1 s."""
    chunks = ((0.2, 1), *((0.2 + 0.1 * n, size) for n, size in enumerate(sizes, start=1)))
    return [
        samples.record(
            **{
                **{"variant": variant, "round": number, "request": f"{variant} {number}"},
                **{"chunks": chunks, "output_tokens": 1 + sum(sizes), "end": chunks[-1][0]},
                **changes,
            }
        )
        for number in (1, 2, 3)
    ]


BASE = answers([1] * 20, "Base")


def positions(records: Iterable[Record], **changes: Any) -> list[tuple[int, float]]:
    """How many steps reached each draft, and the share that accepted it."""
    (one,) = advise(config(**changes), [*BASE, *records]).acceptances
    return [(position.reached, position.accepted) for position in one.positions]


def test_acceptance_is_of_the_steps_that_reached_a_draft() -> None:
    # All three drafts; none; one, in each of three rounds. The last steps are looked at below.
    assert positions(answers([4, 1, 2, 1])) == [(9, 2 / 3), (6, 0.5), (3, 1.0)]


def test_an_answers_end_says_nothing_of_the_draft_it_cut_off() -> None:
    # The last step shows that its first draft was accepted, and not whether its second was.
    assert positions(answers([4, 1, 2])) == [(9, 2 / 3), (3, 1.0), (3, 1.0)]
    assert positions(answers([4, 1, 4])) == [(9, 2 / 3), (6, 1.0), (6, 1.0)]


def test_an_answer_with_merged_steps_is_left_out_and_counted() -> None:
    found = advise(config(), [*BASE, *answers([4, 1, 2, 1]), *answers([7, 1], request="merged")])
    assert found.acceptances[0].positions[0].reached == 9
    assert any("3 answers of k4 had steps with more than 4 tokens" in note for note in found.notes)


def test_what_does_not_count_is_not_seen() -> None:
    usual = answers([4, 1, 2, 1])
    others = [
        *answers([1, 1, 1], round=0),
        *answers([1, 1, 1], round=-1),
        *answers([1, 1, 1], error="the server reset the connection"),
        *answers([1, 1, 1], case="another"),
        *answers([1, 1, 1], tools=True),
        *answers([0, 0, 0], per_chunk=False),
    ]
    assert positions([*usual, *others]) == positions(usual)


def test_only_the_last_attempt_counts() -> None:
    again = [dataclasses.replace(one, attempt=2) for one in [*BASE, *answers([4, 1, 2, 1])]]
    found = advise(config(), [*BASE, *answers([1, 1, 1]), *again])
    assert [one.reached for one in found.acceptances[0].positions] == [9, 6, 3]


@pytest.mark.parametrize(
    ("window", "sizes", "drafts"),
    [(4, [4, 1, 2, 1], 3), (4, [5, 1, 2, 1], 4), (None, [4, 1, 2, 1], 3)],
)
def test_drafts_a_step_are_inferred_where_nobody_says(
    window: int | None, sizes: list[int], drafts: int
) -> None:
    found = advise(config(window=window, drafts_per_step=None), [*BASE, *answers(sizes)])
    (line,) = found.lines
    assert line.windows[0] - line.offset == drafts
    assert any(f"{drafts} are assumed" in note for note in found.notes)


def test_rounds_too_few_give_no_advice_and_no_width() -> None:
    sweep = dataclasses.replace(SMALL, rounds=2)
    found = advise(sweep.config(), sweep.records())
    assert found.recommendations == ()
    (what,) = found.measure_next
    assert what.startswith("Measure at least 3 rounds")
    for one in found.prospects:
        assert one.speedup.low == one.speedup.point == one.speedup.high
    assert any("nobody knows how sure" in note for note in found.notes)


def test_from_one_window_no_other_is_predicted_and_none_is_advised() -> None:
    sweep = dataclasses.replace(SMALL, windows=(7,), draft_costs=(0.03,))
    found = advise(sweep.config(), sweep.records())
    assert {(one.window, one.predicted) for one in found.prospects} == {(7, None)}
    assert {one.fixed for one in found.costs} == {0.0}
    assert found.recommendations == ()
    assert found.measure_next[0].startswith("Measure Qwen3-0.6B with another window than 7")
    assert any("one window was measured" in note for note in found.notes)


def test_nothing_is_advised_where_nothing_speculates() -> None:
    found = advise(config(), BASE)
    assert [*found.lines, *found.prospects, *found.recommendations] == []
    assert any("k4" in note for note in found.notes)
    assert advise(config(), []).prospects == ()


@pytest.mark.parametrize("of_three", [2, 1])
def test_nothing_is_advised_from_a_cell_that_fails(of_three: int) -> None:
    """Requests of one window fail at one load, so that only other windows speak for it."""
    numbers = itertools.count()
    records = [
        dataclasses.replace(one, error="reset", output_tokens=None)
        if (one.variant, one.load) == ("d0-k3", "concurrency-4") and next(numbers) % 3 < of_three
        else one
        for one in SMALL.records()
    ]
    cells = [cell for case in summarise(SMALL.config(), records).cases for cell in case.cells]
    found = advise(SMALL.config(), records, cells=cells)
    measured = {
        (one.load.name, one.line, one.window)
        for one in found.prospects
        if one.measured and one.load
    }
    assert ("concurrency-1", "Qwen3-0.6B", 3) in measured
    assert ("concurrency-4", "Qwen3-0.6B", 3) not in measured
    assert found.recommendations
    assert "Nothing is advised from d0-k3 on " in " ".join(found.notes)


def test_a_line_that_did_not_come_to_a_load_is_left_out_there() -> None:
    records = [
        one
        for one in SMALL.records()
        if not (one.variant.startswith("d0") and one.load == "concurrency-4")
    ]
    found = advise(SMALL.config(), records)
    lines = {one.line for one in found.prospects if one.load and one.load.concurrency == 4}
    assert lines == {"Qwen3-1.7B"}
    assert len(found.recommendations) == len(small().recommendations)
    assert "NaN" not in found.to_json()
    assert '"load": {' in found.to_json()


def test_lines_with_equal_names_are_told_apart() -> None:
    config = SMALL.config()
    owners = {config.variants[1].draft: "one", config.variants[3].draft: "other"}
    variants = [
        one.model_copy(update={"draft": f"{owners[one.draft]}/same"}) if one.draft else one
        for one in config.variants
    ]
    found = advise(config.model_copy(update={"variants": tuple(variants)}), SMALL.records())
    assert [line.name for line in found.lines] == ["same (d0-k3)", "same (d1-k3)"]


def test_a_mix_weighs_the_classes() -> None:
    found = advise(SMALL.config(), SMALL.records(), mix={"structured": 3})
    assert dict(found.mix) == {"structured": 1.0, "open-ended": 0.0}
    of = {(one.prompt_class, one.load): one for one in found.recommendations}
    for (prompt_class, load), one in of.items():
        if prompt_class is None:
            assert one.choice == of["structured", load].choice
            assert one.speedup == of["structured", load].speedup
            cost = of["structured", load].usd_per_million_output_tokens
            assert one.usd_per_million_output_tokens == pytest.approx(cost)


@pytest.mark.parametrize(
    ("mix", "said"),
    [
        ({"structured": 1, "poems": 1}, "poems was not measured; allowed are structured"),
        ({"structured": -1, "open-ended": 2}, "0 or more"),
        ({"structured": 0}, "not all of them 0"),
    ],
)
def test_a_bad_mix_is_refused(mix: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        advise(SMALL.config(), SMALL.records(), mix=mix)


def test_a_measured_window_costs_what_the_report_says() -> None:
    summary = summarise(SMALL.config(), SMALL.records())
    names = {(line.name, window): name for line in small().lines for window, name in line.variants}
    for one in small().prospects:
        if one.measured is None:
            continue
        case = next(case for case in summary.cases if case.name == one.prompt_class)
        cell = case.cell(names[one.line, one.window], one.load)
        assert one.tokens_per_second == pytest.approx(cell.tokens_per_second)
        assert one.usd_per_million_output_tokens == pytest.approx(
            cell.usd_per_million_output_tokens
        )
        assert cell.steps is not None
        assert one.tokens_per_step == pytest.approx(cell.steps.mean)


def test_a_rehearsal_advises_nothing_in_words() -> None:
    rehearsed = SMALL.config().model_copy(update={"stand_in": "golden endpoints"})
    found = advise(rehearsed, SMALL.records())
    assert found.rehearsal
    assert found.prospects == small().prospects
    for one in found.recommendations:
        assert not one.sentence.startswith(("Serve", "Turn"))
        assert one.measure_next == ""


def test_apart_without_controls_is_said() -> None:
    apart = dataclasses.replace(SMALL, wander=0.01)
    records = [one for one in apart.records() if one.round > 0]
    found = advise(apart.config(), records)
    assert any("no control loads" in note for note in found.notes)
    assert found.recommendations == ()
    assert found.measure_next
    for one in found.prospects:
        assert one.speedup.low == one.speedup.point == one.speedup.high


def test_a_block_s_window_is_neither_changed_nor_widened() -> None:
    """A DFlash head drafts as many tokens as it was trained to."""
    records = [*answers([1] * 12, "Base"), *answers([8, 6, 8, 7, 8, 5])]
    found = advise(config(mode="dflash", window=8, drafts_per_step=7), records)
    assert {one.window for one in found.prospects} == {8}
    assert {one.choice.window for one in found.recommendations} == {8}
    assert not any("wider" in one.measure_next for one in found.recommendations)
    assert not any("one window was measured" in note for note in found.notes)
    fused = advise(config(mode="fused", window=8, drafts_per_step=7), records)
    assert fused.recommendations == ()
