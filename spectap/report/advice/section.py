"""The page's section on which draft and which window to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spectap.analysis.advice.advice import Advice
from spectap.report.advice import tables, words
from spectap.report.advice.tables import Table
from spectap.report.plots import by_line

_ROWS: Final = 12  # of a table that a reader takes in at once


@dataclass(frozen=True)
class Section:
    """What the page says of it, in its order."""

    refusal: str
    """Why there is no advice; empty where there is."""
    short: tuple[str, ...]
    """What stands at the top of the page."""
    said: tuple[str, ...]
    """What to serve at each load, or why to be careful where nothing is advised."""
    measure_next: tuple[str, ...]
    recommended: Table
    """Of the mix alone, where there are many classes and loads."""
    mix: str
    """Each class with its share; empty where there is one class only."""
    tables: tuple[Table, ...]
    """What the advice rests on; before it the recommendations left out above."""
    sentences: tuple[str, ...]
    """What to know before believing it."""
    roles: Mapping[str, str]
    """The colour of each line."""


def section(advice: Advice, stand_in: str | None) -> Section:
    """That of one run. ``stand_in``: what stood in for the services, if anything did."""
    many = len(advice.recommendations) > _ROWS
    return Section(
        refusal=words.stood_in(stand_in) if advice.rehearsal else "",
        short=() if advice.rehearsal else tuple(words.in_short(advice, stand_in)),
        said=(*words.said(advice), *advice.cautions),
        measure_next=tuple(words.measure_next(advice)),
        recommended=tables.recommended(advice, only_mix=many),
        mix=words.mix(advice),
        tables=(*([tables.recommended(advice)] if many else []), *tables.of(advice)),
        sentences=(
            *words.caveats(advice),
            *([words.BOTH_SPEEDS] if advice.recommendations else []),
        ),
        roles={name: colour.role for name, colour in by_line.colours(advice).items()},
    )
