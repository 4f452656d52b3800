"""What advice says, of records made by hand and of sweeps whose truth is known.

How often its intervals hold the truth, ``benchmarks.advice`` says.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest
from syrupy.assertion import SnapshotAssertion

from benchmarks.sweeps import Roofline, Sweep
from spectap.analysis.advice.advice import Advice
from spectap.analysis.advice.advise import advise
from spectap.analysis.summarise import summarise
from spectap.config import Config
from spectap.errors import ConfigError
from spectap.golden.schedule import FREE, Linear
from spectap.record import Record
from tests import samples
from tests.analysis import ledgers
from tests.snapshots import TextSnapshot

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
SMALLEST = ("Qwen3-0.6B", 3)
ISOLATED = dataclasses.replace(SMALL, wander=0.03)

Change = Callable[[list[Record]], list[Record]]


@functools.cache
def advised(sweep: Sweep) -> Advice:
    return advise(sweep.config(), records_of(sweep))


records_of: Final = functools.cache(Sweep.records)


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
    (acceptance,) = advise(config(**changes), [*BASE, *records]).acceptances
    return [(position.reached, position.accepted) for position in acceptance.positions]


def test_acceptance_is_of_the_steps_that_reached_a_draft() -> None:
    # All three drafts; none; one, in each of three rounds.
    assert positions(answers([4, 1, 2, 1])) == [(9, 2 / 3), (6, 0.5), (3, 1.0)]
    # The last step shows that its first draft was accepted, and not whether its second was.
    assert positions(answers([4, 1, 2])) == [(9, 2 / 3), (3, 1.0), (3, 1.0)]
    assert positions(answers([4, 1, 4])) == [(9, 2 / 3), (6, 1.0), (6, 1.0)]


def test_answers_with_merged_steps_or_tools_are_left_out_and_counted() -> None:
    more = answers([7, 1], request="merged") + answers([4, 4], request="tools", tools=True)
    advice = advise(config(), [*BASE, *answers([4, 1, 2, 1]), *more])
    assert advice.acceptances[0].positions[0].reached == 9
    assert "3 answers of k4 had steps with more than 4 tokens" in advice.notes[0]
    assert "3 answers of k4 could call tools" in advice.notes[1]


def test_drafts_a_step_are_inferred_where_nobody_says() -> None:
    sizes = [[4, 1, 2, 1], [4, 1, 2, 1], [7, 1]]  # the last may be two steps in one chunk
    records = [answer for number, of in enumerate(sizes) for answer in answers(of)[number:]]
    advice = advise(config(window=None, drafts_per_step=None), [*BASE, *records])
    (line,) = advice.lines
    assert line.windows[0] - line.offset == 3
    assert any("3 are assumed" in note for note in advice.notes)


def test_nothing_is_advised_where_nothing_speculates() -> None:
    advice = advise(config(), BASE)
    assert [*advice.lines, *advice.prospects, *advice.recommendations] == []
    assert any("k4" in note for note in advice.notes)
    assert advise(config(), []).prospects == ()


def without(variant: str, load: str = "") -> Change:
    """No requests of variants with that beginning of a name, at one load or all."""
    return lambda records: [
        r for r in records if not (r.variant.startswith(variant) and r.load.endswith(load))
    ]


SWEEPS = {
    "small": SMALL,
    "isolated": ISOLATED,
    "two rounds": dataclasses.replace(SMALL, rounds=2, loads=(1,)),
    "one window": dataclasses.replace(SMALL, windows=(7,), draft_costs=(0.03,), loads=(1,)),
    "between": Sweep("between", Linear(0.04), (0.04,), {"structured": (0.85,)}, windows=(3, 15)),
    "the widest": Sweep("wide", draft_costs=(0.01,), windows=(3, 7), rounds=8),
    "useless": Sweep("useless", Linear(0.2), (0.3,), {"open-ended": (0.3,)}),
    # Verification is free up to a knee between the measured windows: no line is straight there.
    "knee": Sweep("knee", Roofline(40), (0.03,), {"structured": (0.93,)}, loads=(1, 8)),
    "prompts that differ": Sweep(
        *("prompts", Linear(0.01), (0.03,), {"coding": (0.75,)}),
        tokens=300,
        prompts=24,
        spread=0.15,
        requests=24,
    ),
}
CHANGES: dict[str, Change] = {
    "a failed variant": without("d0-k3"),
    "a line that did not come to a load": without("d0", "-4"),
    "no controls": lambda records: [r for r in records if r.round > 0],
}


@pytest.mark.parametrize("name", [*SWEEPS, *CHANGES])
def test_what_is_said_of_a_sweep(name: str, snapshot: SnapshotAssertion) -> None:
    sweep = SWEEPS.get(name, ISOLATED if name == "no controls" else SMALL)
    records = records_of(sweep)
    advice = advise(sweep.config(), CHANGES[name](records) if name in CHANGES else records)
    assert ledgers.text(advice) == snapshot(extension_class=TextSnapshot)
    assert "NaN" not in advice.to_json()


@pytest.mark.parametrize("of_three", [2, 1])
def test_nothing_is_advised_from_a_cell_that_fails(of_three: int) -> None:
    """Requests of one window fail at one load, so that only other windows speak for it."""
    numbers = itertools.count()
    records = [
        dataclasses.replace(r, error="reset", output_tokens=None)
        if (r.variant, r.load) == ("d0-k3", "concurrency-4") and next(numbers) % 3 < of_three
        else r
        for r in records_of(SMALL)
    ]
    cells = [cell for case in summarise(SMALL.config(), records).cases for cell in case.cells]
    advice = advise(SMALL.config(), records, cells=cells)
    loads = {
        prospect.load.name
        for prospect in advice.prospects
        if prospect.measured and prospect.load and (prospect.line, prospect.window) == SMALLEST
    }
    assert loads == {"concurrency-1"}
    assert advice.recommendations
    assert "Nothing is advised from d0-k3 on " in " ".join(advice.notes)


def test_lines_with_equal_names_are_told_apart() -> None:
    config = SMALL.config()
    owners = {config.variants[1].draft: "first", config.variants[3].draft: "other"}
    variants = tuple(
        v.model_copy(update={"draft": f"{owners[v.draft]}/same"}) if v.draft else v
        for v in config.variants
    )
    advice = advise(config.model_copy(update={"variants": variants}), records_of(SMALL))
    assert [line.name for line in advice.lines] == ["same (d0-k3)", "same (d1-k3)"]


def test_a_mix_weighs_the_classes() -> None:
    advice = advise(SMALL.config(), records_of(SMALL), mix={"structured": 3})
    assert dict(advice.mix) == {"structured": 1.0, "open-ended": 0.0}
    by_scope = {(best.prompt_class, best.load): best for best in advice.recommendations}
    for load in SMALL.config().load.points:
        mixed, structured = by_scope[None, load], by_scope["structured", load]
        assert (mixed.choice, mixed.speedup) == (structured.choice, structured.speedup)


def test_a_mix_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="not all of them 0"):
        advise(SMALL.config(), records_of(SMALL), mix={"structured": 0})


def test_a_measured_window_is_what_the_report_says() -> None:
    summary = summarise(SMALL.config(), records_of(SMALL))
    advice = advised(SMALL)
    names = {(line.name, window): name for line in advice.lines for window, name in line.variants}
    for prospect in advice.prospects:
        if prospect.measured is None:
            continue
        case = next(case for case in summary.cases if case.name == prospect.prompt_class)
        cell = case.cell(names[prospect.line, prospect.window], prospect.load)
        assert cell.steps is not None
        assert prospect.tokens_per_step == pytest.approx(cell.steps.mean)
    for best in advice.recommendations:
        if best.prompt_class and best.choice.line and best.measured:
            case = next(case for case in summary.cases if case.name == best.prompt_class)
            cell = case.cell(names[best.choice.line, best.choice.window or 0], best.load)
            usd = cell.usd_per_million_output_tokens
            assert best.usd_per_million_output_tokens == pytest.approx(usd)


@pytest.mark.parametrize("prompts", [24, 4])
def test_where_prompts_return_advice_is_as_unsure_as_the_report(prompts: int) -> None:
    sweep = dataclasses.replace(SWEEPS["prompts that differ"], prompts=prompts)
    (case,) = summarise(sweep.config(), records_of(sweep)).cases
    for prospect, cell in zip(advised(sweep).prospects, case.cells[1:], strict=True):
        assert prospect.measured
        assert cell.comparison
        assert cell.comparison.cost
        reported, figure = cell.comparison.cost.interval, prospect.measured
        assert figure.point == pytest.approx(reported.point, rel=1e-3)
        assert figure.high / figure.low == pytest.approx(reported.high / reported.low, rel=0.05)


def test_nothing_is_advised_on_fewer_prompts_than_an_interval_needs() -> None:
    sweep = dataclasses.replace(SWEEPS["prompts that differ"], prompts=2, rounds=3)
    advice = advise(sweep.config(), records_of(sweep))
    assert [*advice.prospects, *advice.recommendations] == []
    assert "Nothing is advised on coding: it needs 3 prompts." in advice.notes


def test_a_rehearsal_advises_nothing_in_words() -> None:
    rehearsed = SMALL.config().model_copy(update={"stand_in": "golden endpoints"})
    advice = advise(rehearsed, records_of(SMALL))
    assert advice.rehearsal
    assert advice.prospects == advised(SMALL).prospects
    for best in advice.recommendations:
        assert not best.sentence.startswith(("Serve", "Turn"))
        assert best.measure_next == ""


def test_a_block_s_window_is_neither_changed_nor_widened() -> None:
    """A DFlash head drafts as many tokens as it was trained to."""
    records = [*answers([1] * 12, "Base"), *answers([8, 6, 8, 7, 8, 5])]
    advice = advise(config(mode="dflash", window=8, drafts_per_step=7), records)
    assert {prospect.window for prospect in advice.prospects} == {8}
    assert {best.choice.window for best in advice.recommendations} == {8}
    assert not any("wider" in best.measure_next for best in advice.recommendations)
    fused = advise(config(mode="fused", window=8, drafts_per_step=7), records)
    assert fused.recommendations == ()


def test_where_steps_cost_the_same_it_is_leviathans_equation() -> None:
    """(1 - a^(g+1)) / (1 - a) / (g c + 1), equation 1 and theorem 3.8 of 2211.17192."""
    cost, acceptance = 0.05, 0.8
    sweep = Sweep("leviathan", FREE, (cost,), {"structured": (acceptance,)}, tokens=4000, round=0.0)
    for prospect in advised(sweep).prospects:
        drafts = prospect.window - 1
        expected = (1 - acceptance ** (drafts + 1)) / (1 - acceptance) / (drafts * cost + 1)
        assert prospect.speedup.point == pytest.approx(expected, rel=0.02)
        assert prospect.predicted is not None
        assert prospect.predicted.point == pytest.approx(expected, rel=0.03)
