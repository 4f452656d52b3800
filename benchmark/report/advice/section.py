"""The page's section on which draft and which window to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmark.analysis.advice.advice import Advice
from benchmark.report.advice import tables, words
from benchmark.report.advice.tables import Table
from benchmark.report.advice.words import Said
from benchmark.report.plots import by_line


@dataclass(frozen=True)
class Section:
    """What the page says of it, in its order."""

    refusal: str
    """Why there is no advice; empty where there is."""
    said: tuple[Said, ...]
    recommended: Table
    mix: str
    """Each class with its share; empty where there is one class only."""
    tables: tuple[Table, ...]
    """What the advice rests on."""
    sentences: tuple[str, ...]
    """How steps' costs are split, and what to know before believing it."""
    roles: Mapping[str, str]
    """The colour of each line."""


def section(advice: Advice, stand_in: str | None) -> Section:
    """That of one run. ``stand_in``: what stood in for the services, if anything did."""
    splits = dict.fromkeys(cost.sentence for cost in advice.costs if cost.sentence)
    return Section(
        refusal=words.stood_in(stand_in) if advice.rehearsal else "",
        said=tuple(words.said(advice)),
        recommended=tables.recommended(advice),
        mix=words.mix(advice),
        tables=tables.of(advice),
        sentences=(*splits, *advice.notes),
        roles={name: colour.role for name, colour in by_line.colours(advice).items()},
    )
