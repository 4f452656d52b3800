"""The colours of the variants, by their position in the configuration's order.

Each passes 4.5:1 as text on its page (WCAG 2.2, 1.4.3), and any two are apart for readers with any
form of colour blindness. Beyond the eighth variant the colours come again, with another marker.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Final


@dataclass(frozen=True)
class Colour:
    """The look of one variant; ``light`` and ``dark`` are ``#rrggbb``, by the page's scheme."""

    role: str
    """Name in style sheets."""
    light: str
    dark: str
    marker: str
    """Matplotlib's code of the marker."""


PAPER: Final = ("#ffffff", "#14181d")
"""The light and the dark page."""

# The first is a baseline: blue, with orange for what is compared with it.
_COLOURS: Final = (
    ("#0a66ad", "#63b3ed"),  # blue
    ("#b34700", "#f5a25d"),  # orange
    ("#143500", "#c5feb9"),  # green
    ("#8d14fd", "#8669ff"),  # violet
    ("#9a5f62", "#f23c24"),  # rose, red
    ("#52460b", "#fdd90b"),  # olive, yellow
    ("#075462", "#5be6f0"),  # teal
    ("#47024b", "#b36b92"),  # plum
)
_MARKERS: Final = "os^D"

ALL: Final = tuple(
    Colour(f"variant-{position}", light, dark, _MARKERS[0])
    for position, (light, dark) in enumerate(_COLOURS, start=1)
)
"""Every colour there is, each with the first marker."""


def of(names: Iterable[str]) -> dict[str, Colour]:
    """A colour for each of the variants, whose names are given in the configuration's order."""
    looks = cycle(replace(colour, marker=marker) for marker in _MARKERS for colour in ALL)
    return dict(zip(names, looks, strict=False))
