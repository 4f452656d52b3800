"""The colours: legible as text, and different for each variant."""

from __future__ import annotations

from spectap import palette


def luminance(colour: str) -> float:
    encoded = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in encoded]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_each_is_legible_as_text_and_no_two_variants_look_alike() -> None:
    light, dark = map(luminance, palette.PAPER)
    for colour in palette.ALL:
        assert (light + 0.05) / (luminance(colour.light) + 0.05) >= 4.5
        assert (luminance(colour.dark) + 0.05) / (dark + 0.05) >= 4.5
    colours = palette.of(f"k{number}" for number in range(32))
    assert len({(colour.light, colour.marker) for colour in colours.values()}) == 32
    assert list(palette.of(["Base", "SD"]).values()) == list(palette.ALL[:2])
