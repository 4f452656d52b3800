"""The tables of advice, as text: for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectap import wording
from spectap.analysis.advice.advice import (
    Acceptance,
    Advice,
    Position,
    Prospect,
    Recommendation,
    StepCost,
)
from spectap.load_points import LoadPoint
from spectap.report import loads
from spectap.report.advice import words

MIX: Final = "the mix"
_RIVALS: Final = 2  # of a choice are named; the file has all


@dataclass(frozen=True)
class Row:
    """One line: what it is of, and the texts of each group of columns."""

    labels: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    line: str = ""
    """The name of the line it is of, for its colour; empty for none."""


@dataclass(frozen=True)
class Table:
    """Rows in bodies, under the headings of their labels and of groups of columns."""

    title: str
    labels: tuple[str, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    """The title of each group, and the headings of its columns."""
    bodies: tuple[tuple[Row, ...], ...]


def recommended(advice: Advice, *, rivals: bool = True, only_mix: bool = False) -> Table:
    """What to serve each class with, and the mix, at each load.

    ``rivals``: with what may be better, for which a terminal has no room. ``only_mix``: without the
    classes, where there are several.
    """
    points = _loads(advice)
    several = len(points) > 1
    priced = any(one.usd_per_million_output_tokens for one in advice.recommendations)
    shared = rivals and any(one.rivals for one in advice.recommendations)

    def rows(load: LoadPoint | None) -> Iterator[Row]:
        for one in advice.recommendations:
            if one.load != load or (only_mix and len(advice.mix) > 1 and one.prompt_class):
                continue
            speculates = one.choice.line is not None
            ratio = words.ratio(one.speedup) if speculates else (wording.MISSING, "")
            groups = [
                (*ratio, ("measured" if one.measured else "predicted") if speculates else ""),
                (words.probability(one.probability),),
            ]
            if priced:
                groups.append((wording.dollars(one.usd_per_million_output_tokens),))
            if shared:
                groups.append(("\n".join(_rivals(one)),))
            labels = (one.prompt_class or MIX, words.choice(one.choice))
            yield Row(
                (loads.short(load), *labels) if several else labels,
                tuple(groups),
                one.choice.line or "",
            )

    return Table(
        "The fastest of what stood in" if advice.rehearsal else "What to serve",
        (*(("load",) if several else ()), "class", "fastest" if advice.rehearsal else "serve"),
        (
            ("speed-up, 95 %", ("", "", "")),
            ("how", ("sure",)),
            *((("USD per", ("M tokens",)),) if priced else ()),
            *((("may be better", ("",)),) if shared else ()),
        ),
        tuple(tuple(rows(load)) for load in points),
    )


def _rivals(of: Recommendation) -> Iterator[str]:
    for rival, part in of.rivals[:_RIVALS]:
        same = rival.line is not None and rival.line == of.choice.line
        what = f"window {rival.window}" if same else words.choice(rival)
        yield f"{what} ({words.probability(part)})"


def prospects(advice: Advice, load: LoadPoint | None, *, every: bool = True) -> Table:
    """Each window of each line at one load, class by class.

    ``every``: otherwise only windows that were measured, or may be the best somewhere.
    """
    found = [one for one in advice.prospects if one.load == load]
    classes = dict.fromkeys(one.prompt_class for one in found)
    shown = {(one.line, one.window) for one in found if every or one.measured} | _chosen(advice)
    compared = any(one.predicted and one.measured for one in found)
    columns = ("tokens", "predicted", "measured", *(("error",) if compared else ()))

    def rows(line: str) -> Iterator[Row]:
        own = {(one.window, one.prompt_class): one for one in found if one.line == line}
        for window in sorted({window for window, _ in own if (line, window) in shown}):
            groups = (_prospect(own.get((window, name)), compared=compared) for name in classes)
            yield Row((line, str(window)), tuple(groups), line)

    where = f" {words.at(load)}" if load else ""
    return Table(
        f"Speed-up by window{where}",
        ("draft", "window"),
        tuple((name, columns) for name in classes),
        tuple(body for line in advice.lines if (body := tuple(rows(line.name)))),
    )


def _prospect(found: Prospect | None, *, compared: bool) -> tuple[str, ...]:
    if found is None:
        return ("",) * (4 if compared else 3)
    predicted, measured = (
        " ".join(filter(None, words.ratio(one))) for one in (found.predicted, found.measured)
    )
    error = (words.error(found.predicted, found.measured),) if compared else ()
    return (f"{found.tokens_per_step:.2f}", predicted, measured, *error)


def _chosen(advice: Advice) -> set[tuple[str, int]]:
    """Lines and windows that are recommended somewhere, or nearly."""
    choices = (
        choice
        for one in advice.recommendations
        for choice in (one.choice, *(rival for rival, _ in one.rivals))
    )
    return {(one.line, one.window) for one in choices if one.line and one.window}


def acceptance(advice: Advice) -> Table:
    """How often the draft at each position is accepted, where it is reached."""
    of = [one for one in advice.acceptances if one.positions]
    numbers = sorted({position.number for one in of for position in one.positions})
    several = len(advice.lines) > 1

    def row(number: int) -> Row:
        return Row((str(number),), tuple((*_position(one, number),) for one in of))

    return Table(
        "Drafts accepted, of those reached",
        ("position",),
        tuple(
            (f"{one.line}, {one.prompt_class}" if several else one.prompt_class, ("", "95 %", "of"))
            for one in of
        ),
        (tuple(map(row, numbers)),),
    )


def _position(of: Acceptance, number: int) -> Iterator[str]:
    found: Position | None = next((one for one in of.positions if one.number == number), None)
    if found is None:
        yield from ("", "", "")
        return
    yield f"{100 * found.accepted:.0f} %"
    yield "-".join(f"{100 * end:.0f}" for end in found.interval) if found.interval else ""
    yield f"{found.reached:,}"


def costs(advice: Advice) -> Table:
    """What a step of each line takes at each load, and what it is made of; in milliseconds."""
    windows = sorted({window for cost in advice.costs for window, _ in cost.measured})
    several = len(_loads(advice)) > 1

    def row(cost: StepCost) -> Row:
        measured = dict(cost.measured)
        # One window cannot tell what is fixed from what each draft adds.
        parts: list[float | None] = [cost.fixed if len(measured) > 1 else None, cost.per_draft]
        steps = (measured[one].point if one in measured else None for one in windows)
        return Row(
            (cost.line, loads.short(cost.load)) if several else (cost.line,),
            (
                (wording.milliseconds(cost.baseline),),
                tuple(map(wording.milliseconds, steps)),
                tuple(map(wording.milliseconds, parts)),
            ),
            cost.line,
        )

    return Table(
        "A step, ms",
        ("draft", "load") if several else ("draft",),
        (
            ("", ("baseline",)),
            ("at window", tuple(map(str, windows))),
            (
                "beyond the baseline's",
                ("fixed", "a draft"),
            ),
        ),
        tuple(_bodies(map(row, advice.costs))),
    )


def _bodies(rows: Iterable[Row]) -> Iterator[tuple[Row, ...]]:
    """The rows of each line together."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.line, []).append(row)
    yield from map(tuple, found.values())


def of(advice: Advice, *, every: bool = True) -> tuple[Table, ...]:
    """All but the first, in their order."""
    tables = [
        *(prospects(advice, load, every=every) for load in _loads(advice)),
        acceptance(advice),
        costs(advice),
    ]
    return tuple(table for table in tables if any(table.bodies))


def _loads(advice: Advice) -> Sequence[LoadPoint | None]:
    return list(dict.fromkeys(one.load for one in advice.prospects))
