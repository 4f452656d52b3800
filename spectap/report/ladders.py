"""What the load points of one kind say together, in few words: the heading where there are several.

The sentence of each ladder, with its interval, is the analysis'.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from spectap.analysis.summary import Case, Crossover, Ladder
from spectap.report import loads


class Verb(NamedTuple):
    """How a question is answered: ``answers requests`` ``faster`` or ``slower``."""

    verb: str
    better: str
    worse: str


SPEED: Final = Verb("answers requests", "faster", "slower")
COST: Final = Verb("costs", "less", "more")
TOGETHER: Final = Verb("gets", "more tokens/s", "fewer tokens/s")

Phrase = tuple[str, str]
"""Subject and predicate."""


def leading(case: Case, variant: str) -> Ladder | None:
    """The ladder that a heading speaks of: that of the closed loops, if there is one."""
    own = [ladder for ladder in case.ladders if ladder.variant == variant]
    return min(own, key=lambda ladder: ladder.open, default=None)


def exact(ladder: Ladder, found: Crossover, says: Verb) -> str:
    """What is true at which loads: ``SD costs less up to 3 at once and more from 6``."""
    variant = ladder.variant
    if (everywhere := _at_all(ladder, found, says)) is not None:
        return f"{variant} {everywhere}"
    if found.better_up_to is not None:
        up_to = _amount(ladder, found.better_up_to)
        said = f"{variant} {says.verb} {says.better} up to {up_to}"
        if found.worse_from is not None:
            return f"{said} and {says.worse} from {found.worse_from:g}"
        return f"{said}; above, that cannot be told"
    if found.worse_from is not None:
        said = f"{variant} {says.verb} {says.worse} from {_amount(ladder, found.worse_from)}"
        return f"{said}; below, that cannot be told"
    return f"Up to which load {variant} {says.verb} {says.better} cannot be told"


def rough(ladder: Ladder, found: Crossover, says: Verb) -> Phrase:
    """The same without figures, so that test cases can be counted by it."""
    if (everywhere := _at_all(ladder, found, says)) is not None:
        return ladder.variant, everywhere
    if found.better_up_to is not None:
        above = f" and {says.worse} at high ones" if found.found else ""
        return ladder.variant, f"{says.verb} {says.better} at low loads{above}"
    if found.worse_from is not None:
        return ladder.variant, f"{says.verb} {says.worse} at high loads"
    return f"up to which load it {says.verb} {says.better}", "cannot be told"


def _amount(ladder: Ladder, load: float) -> str:
    """``4 at once``."""
    return f"{load:g} {loads.unit(ladder.loads)}"


def _at_all(ladder: Ladder, found: Crossover, says: Verb) -> str | None:
    """What is true at every load; None where nothing is."""
    lowest, highest = (end.amount for end in (ladder.loads[0], ladder.loads[-1]))
    every = "at every load"
    if not ladder.whole:
        every = "at every load that has a verdict"
    elif ladder.failed and says is SPEED:
        every = "wherever they succeed"
    if found.better_up_to is not None and found.better_up_to >= highest:
        return f"{says.verb} {says.better} {every}"
    if found.worse_from is not None and found.worse_from <= lowest:
        return f"{says.verb} {says.worse} {every}"
    return None


def counted(ladders: list[Ladder], says: Verb) -> Counter[Phrase]:
    """How often each thing is true, the most frequent first."""
    phrases = Counter(
        rough(ladder, ladder.speed if says is SPEED else ladder.cost, says) for ladder in ladders
    )
    return Counter(dict(phrases.most_common()))
