"""Measured windows side by side."""

from dataclasses import replace

import pytest

from benchmarks.sweeps import BASELINE, Sweep
from spectap.analysis.summarise import summarise
from spectap.analysis.summary import Windows

SWEEP = Sweep(
    "windows",
    draft_costs=(0.05,),
    acceptances={"structured": (0.95,), "open-ended": (0.4,)},
    loads=(1, 4),
    tokens=200,
)


def marked(windows: Windows) -> list[str]:
    return [window.variant for window in windows.measured if window.near]


def test_each_class_has_a_table_at_each_load_with_the_fastest_first() -> None:
    tables = summarise(SWEEP.config(), SWEEP.records()).windows
    assert [(t.prompts, t.load.concurrency) for t in tables] == [
        (prompts, load) for load in (1, 4) for prompts in ("structured", "open-ended")
    ]
    for table in tables:
        speeds = [window.speed.point for window in table.measured]
        assert speeds == sorted(speeds, reverse=True)
        for window in table.measured:
            if window.variant == BASELINE:
                assert (window.window, window.speed.point, window.near) == (None, 1, False)
                continue
            load = table.load.concurrency or 1
            truth = SWEEP.measured_speedup(table.prompts, window.window or 0, load)
            assert window.speed.point == pytest.approx(truth, rel=0.1)
            assert 1 < (window.tokens_per_step or 0) <= (window.window or 0)
    assert [t.measured[0].window for t in tables] == [15, 3, 15, 3]
    assert marked(tables[0]) == ["d0-k15"]


def test_windows_that_cannot_be_told_apart_are_all_marked() -> None:
    alike = replace(SWEEP, draft_costs=(0.05, 0.0501), acceptances={"coding": (0.8, 0.8)})
    for table in summarise(alike.config(), alike.records()).windows:
        best = {window.variant.partition("-")[2] for window in table.measured[:1]}
        assert {f"{draft}-{window}" for draft in ("d0", "d1") for window in best} <= {
            *marked(table)
        }


def test_a_variant_whose_requests_failed_or_are_missing_is_no_choice() -> None:
    records = SWEEP.records()
    fastest = [i for i, record in enumerate(records) if record.variant == "d0-k15"]
    failed = {i: replace(records[i], error="aborted", status=500) for i in fastest[::20]}
    broken = [failed.get(i, record) for i, record in enumerate(records)]
    missing = [record for i, record in enumerate(records) if i not in fastest[-1:]]
    for changed in (broken, missing):
        for table in summarise(SWEEP.config(), changed).windows[-1:]:
            assert {w.variant for w in table.measured} == {BASELINE, "d0-k3", "d0-k7"}


def test_several_test_cases_of_a_class_are_one_row() -> None:
    """The speed-up is that of the report's table by class."""
    config = SWEEP.config()
    (case, _) = config.test_cases
    config = config.model_copy(
        update={"test_cases": (case, case.model_copy(update={"name": "again"}))}
    )
    records = [r for r in SWEEP.records() if r.case == "structured"]
    records += [replace(r, case="again") for r in SWEEP.records(1) if r.case == "structured"]
    summary = summarise(config, records)
    speeds = {(o.load, o.variant): o.speed for o in summary.overall}
    for table in summary.windows:
        assert table.prompts == "structured"
        for window in table.measured:
            if window.variant != BASELINE:
                assert speeds[table.load, window.variant] == window.speed


def test_variants_that_were_measured_apart_are_as_unsure_as_their_controls() -> None:
    apart = replace(SWEEP, wander=0.05)
    tables = summarise(apart.config(), apart.records()).windows
    assert tables
    at_once = summarise(SWEEP.config(), SWEEP.records()).windows
    for wide, narrow in zip(tables, at_once, strict=True):
        widths = [
            {w.variant: w.speed.high / w.speed.low for w in t.measured} for t in (wide, narrow)
        ]
        assert all(widths[0][name] > widths[1][name] for name in widths[1] if name != BASELINE)
        assert {*marked(narrow)} <= {*marked(wide)}
