"""The colours: legible, apart for every reader, and different for each variant."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from spectap import palette

Vector = NDArray[np.float64]

# Linear sRGB as readers of each kind see it (Machado, Oliveira and Fernandes 2009, severity 1.0).
VISIONS: dict[str, list[float]] = {
    "ordinary": [1, 0, 0, 0, 1, 0, 0, 0, 1],
    "protanopia": [
        *(0.152286, 1.052583, -0.204868),
        *(0.114503, 0.786281, 0.099216),
        *(-0.003882, -0.048116, 1.051998),
    ],
    "deuteranopia": [
        *(0.367322, 0.860646, -0.227968),
        *(0.280085, 0.672501, 0.047413),
        *(-0.011820, 0.042940, 0.968881),
    ],
    "tritanopia": [
        *(1.255528, -0.076749, -0.178779),
        *(-0.078411, 0.930809, 0.147602),
        *(0.004733, 0.691367, 0.303900),
    ],
}
# Oklab (Ottosson 2020), in which about 0.02 is the smallest difference that is seen.
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
LEAST_DISTANCE = 0.08
CONTRAST = 4.5


def linear(colour: str) -> Vector:
    """Linear sRGB of ``#rrggbb``."""
    encoded = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(colour: str, background: str) -> float:
    luminances = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (colour, background))
    return (luminances[1] + 0.05) / (luminances[0] + 0.05)


def perceived(colour: str, vision: str) -> Vector:
    light: Vector = np.clip(np.reshape(VISIONS[vision], (3, 3)) @ linear(colour), 0, 1)
    oklab: Vector = TO_OKLAB @ np.cbrt(TO_CONES @ light)
    return oklab


@pytest.mark.parametrize("colour", palette.ALL, ids=lambda colour: colour.role)
def test_each_is_legible_as_text(colour: palette.Colour) -> None:
    light, dark = palette.PAPER
    assert contrast(colour.light, light) >= CONTRAST
    assert contrast(colour.dark, dark) >= CONTRAST


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_any_two_are_apart(vision: str, scheme: str) -> None:
    colours = [perceived(getattr(colour, scheme), vision) for colour in palette.ALL]
    for first, second in itertools.combinations(colours, 2):
        assert np.linalg.norm(first - second) >= LEAST_DISTANCE


def test_the_order_decides_and_no_two_variants_look_alike() -> None:
    names = [f"k{number}" for number in range(32)]
    colours = palette.of(names)
    assert list(colours) == names
    assert len({(colour.light, colour.marker) for colour in colours.values()}) == len(names)
    assert list(palette.of(["Base", "SD"]).values()) == list(palette.ALL[:2])
