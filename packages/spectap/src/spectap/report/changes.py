"""The comparison of two runs: which differences are more than chance, and whether a gate holds."""

from collections.abc import Callable, Iterator
from typing import Final

from spectap import wording
from spectap.analysis.changes import CellChange, Change, Changes, Figure
from spectap.report import phrases
from spectap.report.view import Columns, Row, Table, View, grouped

_FIGURES: Final[dict[Figure, tuple[str, Callable[[float], str]]]] = {
    Figure.TOKENS_PER_STEP: ("tokens a step", "{:.2f}".format),
    Figure.SPEED_UP: ("request speed-up", "{:.2f}x".format),
    Figure.TIME_PER_OUTPUT_TOKEN: ("decoding: TPOT, ms", wording.milliseconds),
    Figure.TTFT: ("TTFT, ms", wording.milliseconds),
    Figure.TOKENS_PER_SECOND: ("tokens/s together", wording.significant),
}
"""The heading of each figure's columns, and the function that writes its values."""


def of_changes(changes: Changes) -> View:
    lead = [f"  {difference}" for difference in changes.incomparable]
    if lead:
        lead[:0] = ["NOT COMPARABLE: they measured different things, so nothing below is judged."]
    return View(
        title=f"{changes.new} (new) against {changes.old} (old)",
        lead=tuple(lead),
        tables=((_table(changes), (*_verdict(changes), *_gate(changes))),),
        notes=tuple(_notes(changes)),
    )


def _table(changes: Changes) -> Table:
    figures = [figure for figure in Figure if any(figure in cell.figures for cell in changes.cells)]
    several = len({cell.load for cell in changes.cells}) > 1

    def row(cell: CellChange) -> Row:
        load = (phrases.short_load(cell.load),) if several else ()
        return Row(
            (wording.short(cell.test_case), *load, wording.short(cell.variant)),
            tuple(_texts(figure, cell.figures.get(figure)) for figure in figures),
        )

    return Table(
        "",
        ("test case", *(("load",) if several else ()), ""),
        tuple(Columns(_FIGURES[figure][0], ("old", "new", "change", "95 %")) for figure in figures),
        grouped((cell.test_case, row(cell)) for cell in changes.cells),
    )


def _texts(figure: Figure, change: Change | None) -> tuple[str, str, str, str]:
    if change is None:
        return "", "", wording.MISSING, ""
    doubt = "?" if figure.judged and not change.differs else ""
    old, new = map(_FIGURES[figure][1], (change.old, change.new))
    difference = phrases.change(change.ratio)
    return old, new, difference.figure + doubt, difference.bounds.removesuffix(" %")


def _verdict(changes: Changes) -> Iterator[str]:
    if changes.incomparable:
        return
    judged = [change for *_, change in changes.judged]
    if not judged:
        yield "No figure that a verdict rests on is in both runs: tokens a step or a speed-up."
        return
    differing = sum(change.differs for change in judged)
    yield f"{differing} of {len(judged)} tokens a step and speed-ups differ by more than chance."
    if changes.launch_error is not None:
        error = wording.percent(changes.launch_error)
        yield f"This assumes that launches of a server are {error} % apart, which was not measured."
    unseen = [change.detectable for change in judged if not change.differs]
    if unseen:
        most = wording.percent(max(unseen))
        yield f'Where there is a "?", a change of {most} % would be seen four times in five.'


def _gate(changes: Changes) -> Iterator[str]:
    if changes.threshold is None:
        return
    threshold = f"{changes.threshold:g}"
    several = len({cell.load for cell in changes.cells}) > 1
    for cell, figure, change in changes.judged:
        if change.below:
            at = f" at {cell.load}" if several and cell.load else ""
            yield (
                f"BELOW {threshold}: {cell.test_case}, {cell.variant}{at}: the new {figure.value} "
                f"is {change.ratio.point:.2f} times the old one."
            )
    yield from (f"NOT JUDGED: {gap}" for gap in changes.gaps)
    if not changes.failed:
        yield f"Nothing is surely below {threshold} of what it was."
    seen = [change.seen_below for *_, change in changes.judged if not change.below]
    if noticed := [ratio for ratio in seen if ratio is not None]:
        yield (
            f"In the least precise row, {min(noticed):.2f} of what it was would be noticed four "
            "times in five."
        )


def _notes(changes: Changes) -> Iterator[str]:
    for share in changes.shares:
        low, high = (f"{100 * bound:+.0f}" for bound in share.difference)
        yield (
            f"{share.name}: {100 * share.old:.0f} % before, {100 * share.new:.0f} % now "
            f"(difference {low} to {high} points)."
        )
    yield from (f"They differ in {difference}." for difference in changes.settings)
    yield from changes.notes
    if changes.launch_error is not None:
        yield (
            "Each launch of a server has a level of its own, and fewer than three a run do not "
            "show it. What is assumed (--launch-error) is of each server's times, not of tokens a "
            "step: acceptance that differs between launches shows as a difference. Three "
            "launches a run show all of it: launches: 3 of an experiment, or measure --launches 3."
        )
