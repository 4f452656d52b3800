"""How numbers are written."""

from __future__ import annotations

import pytest

from spectap import wording


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.01504, "15.0"), (0.2098, "209.8"), (0.0012, "1.20"), (None, "-")]
)
def test_milliseconds(seconds: float | None, text: str) -> None:
    assert wording.milliseconds(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"), [(35.7608, "$35.76"), (1234.5, "$1,234.50"), (0.0123, "$0.012"), (None, "-")]
)
def test_dollars(usd: float | None, text: str) -> None:
    assert wording.dollars(usd) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (119.4, "119 s"), (120, "2 min"), (600, "10 min"), (6 * 3600, "360 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert wording.duration(seconds) == text


def test_periods() -> None:
    assert wording.period(0, 3600) == "1970-01-01 00:00 to 01:00 UTC"
    assert wording.period(0, 90_000) == "1970-01-01 00:00 to 1970-01-02 01:00 UTC"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.344, "-66 %"), (1.0421, "+4.2 %"), (1.3, "+30 %"), (0.99999, "+0.0 %"), (1, "+0.0 %")],
)
def test_changes(ratio: float, text: str) -> None:
    assert wording.change(ratio).replace("\N{MINUS SIGN}", "-") == text


def test_a_per_cent_sign_stays_with_its_number() -> None:
    text = wording.unbroken("95 % interval, 59-62 % of 4 cases, %")
    assert text.split(" ") == ["95\xa0%", "interval,", "59-62\xa0%", "of", "4", "cases,", "%"]


def test_counts_and_names() -> None:
    assert wording.count(1, "round") == "1 round"
    assert wording.count(24_000, "request") == "24,000 requests"
    assert wording.short("x" * 30) == "x" * 19 + "…"


@pytest.mark.parametrize(
    ("items", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_lists(items: list[str], text: str) -> None:
    assert wording.listed(items) == text
