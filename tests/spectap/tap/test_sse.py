"""The event parser: however a stream is cut, the same events come out, and every byte."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.tap.sse import Event, Parser

text = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)
line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes | None]]:
    """A stream and the data of its events, composed rather than parsed."""
    stream, expected = b"", []
    end = draw(line_ends)
    for _ in range(draw(st.integers(0, 6))):
        lines = draw(st.lists(text, max_size=3))
        extra = draw(st.sampled_from([[b": ping"], [b"event: x", b"id: 7"], [b"data2: y"], []]))
        written = extra + [b"data: " + line.encode() for line in lines]
        if not written:
            continue
        stream += b"".join(line + end for line in written) + end
        expected.append(b"\n".join(line.encode() for line in lines) if lines else None)
    return stream, expected


@given(streams(), st.lists(st.integers(0, 200), max_size=20))
def test_any_cut_gives_the_same_events(
    stream: tuple[bytes, list[bytes | None]], cuts: list[int]
) -> None:
    raw, expected = stream
    parser = Parser()
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    events: list[Event] = []
    for start, end in pairwise(bounds):
        events += parser.feed(raw[start:end])
    events += parser.close()
    assert [event.data for event in events] == expected
    assert b"".join(event.raw for event in events) == raw


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b"data: x\n\n", b"x"),
        (b"data:x\n\n", b"x"),
        (b"data:  x\n\n", b" x"),
        (b"data\n\n", b""),
        (b"data: a\r\ndata: b\r\n\r\n", b"a\nb"),
        (b": comment\n\n", None),
        (b"database: x\n\n", None),
    ],
)
def test_data_of_an_event(raw: bytes, data: bytes | None) -> None:
    assert list(Parser().feed(raw)) == [Event(raw, data)]


def test_an_event_cut_inside_a_character_waits_for_the_rest() -> None:
    parser, raw = Parser(), "data: 🙂\n\n".encode()
    assert [list(parser.feed(raw[i : i + 1])) for i in range(len(raw) - 1)] == [[]] * (len(raw) - 1)
    assert list(parser.feed(raw[-1:])) == [Event(raw, "🙂".encode())]


def test_an_event_without_its_blank_line_comes_at_the_end() -> None:
    parser = Parser()
    assert list(parser.feed(b"data: [DONE]\n")) == []
    assert parser.pending == b"data: [DONE]\n"
    assert list(parser.close()) == [Event(b"data: [DONE]\n", b"[DONE]")]
    assert list(parser.close()) == []
