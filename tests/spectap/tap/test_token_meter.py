"""The meter counts every event and token, and removes what the client did not ask for."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal.golden import wire
from spectap.tap.token_meter import Events, Meter, clean, event_data, without_usage

text = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes | None]]:
    """A stream and the data of its events, composed rather than parsed."""
    stream, expected = b"", []
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
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
    parser = Events()
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    events = [event for start, end in pairwise(bounds) for event in parser.feed(raw[start:end])]
    if remainder := parser.close():
        events.append(remainder)
    assert [event_data(event) for event in events] == expected
    assert b"".join(events) == raw
    assert parser.close() == b""


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data:x\n\n", b"x"),
        (b"data:  x\n\n", b" x"),
        (b"data\n\n", b""),
        (b"database: x\n\n", None),
    ],
)
def test_data_of_an_event(event: bytes, data: bytes | None) -> None:
    assert event_data(event) == data


def meter(strip: bool = True, usage_only: bool = False, null_usage: bool = False) -> Meter:
    return Meter(strip=strip, usage_only=usage_only, null_usage=null_usage)


def stream(answer: wire.Answer, counts: list[int], usage: bool) -> list[bytes]:
    """An answer's events; without ``usage`` those a client gets who does not ask for it."""
    events = [answer.role(usage)] if answer.chat else []
    total = 0
    for index, count in enumerate(counts):
        text = wire.words(total, count)
        total += count
        events.append(answer.chunk(text, index == len(counts) - 1, total, usage))
    if usage:
        events.append(answer.usage_only(total))
    return [*events, wire.DONE]


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=12),
    st.booleans(),
    st.lists(st.integers(0, 4000), max_size=12),
)
def test_passes_on_what_the_client_would_have_got(
    counts: list[int], chat: bool, cuts: list[int]
) -> None:
    """Byte for byte, wherever the stream is cut; and no token is lost."""
    answer = wire.Answer("id", "m", 1, chat, prompt_tokens=9)
    raw = b"".join(stream(answer, counts, usage=True))
    subject = meter(null_usage=not chat)
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    passed = b""
    for number, (start, end) in enumerate(pairwise(bounds)):
        passed += subject.feed(raw[start:end], float(number))
    passed += subject.close(99.0)
    assert passed == b"".join(stream(answer, counts, usage=False))
    assert [tokens for _, tokens in subject.chunks] == counts
    assert (subject.prompt_tokens, subject.output_tokens) == (9, sum(counts))
    assert subject.per_chunk
    assert subject.done
    assert subject.error is None


def test_with_nothing_to_strip_reads_pass_as_they_come() -> None:
    subject = meter(strip=False, usage_only=True)
    raw = b"".join(stream(wire.Answer("id", "m", 1, True, 9), [1, 4], usage=True))
    reads = [raw[i : i + 50] for i in range(0, len(raw), 50)]
    assert [subject.feed(read, 1.0) for read in reads] == reads
    assert subject.close(1.0) == b""
    assert subject.output_tokens == 5


def test_counts_that_do_not_add_up_are_not_taken_for_counts() -> None:
    subject = meter()
    answer = wire.Answer("id", "m", 1, True, 9)
    subject.feed(answer.chunk("a", False, 3, usage=True) + answer.usage_only(5), 0.5)
    assert not subject.per_chunk
    assert subject.output_tokens == 5


def test_several_choices_are_counted_one_by_one() -> None:
    subject = meter()
    for index, total in [(0, 1), (1, 1), (0, 5), (1, 3)]:
        choices = [{"index": index, "delta": {"content": "x"}}]
        usage = {"prompt_tokens": 4, "completion_tokens": total}
        subject.feed(event(choices=choices, usage=usage), 0.5)
    assert subject.output_tokens == 8
    subject.feed(event(choices=[], usage={"prompt_tokens": 4, "completion_tokens": 8}), 0.6)
    assert [tokens for _, tokens in subject.chunks] == [1, 1, 4, 2]
    assert subject.per_chunk


@pytest.mark.parametrize(
    "delta", [{"content": "x"}, {"reasoning_content": "x"}, {"tool_calls": [{"index": 0}]}]
)
def test_any_kind_of_content_is_content(delta: dict[str, Any]) -> None:
    subject = meter()
    subject.feed(event(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}]), 0.1)
    subject.feed(event(choices=[{"index": 0, "delta": delta}]), 0.2)
    assert subject.chunks == [(0.2, 0)]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'data: {"choices\n\n' + wire.DONE, "malformed event: b'{\"choices'"),
        (b"data: [1]\n\n" + wire.DONE, "malformed event: b'[1]'"),
        (b'data: {"error": {"message": "no  memory"}}\n\n', "error in the stream: no memory"),
        (b'data: {"error": "odd"}\n\n', "error in the stream: odd"),
        (b'data: {"choices": []}\n\n', "truncated: the stream ended without [DONE]"),
        (b"", "truncated: the stream ended without [DONE]"),
    ],
)
def test_what_is_wrong_is_said_and_passed_on(raw: bytes, reason: str) -> None:
    subject = meter()
    assert subject.feed(raw, 0.1) + subject.close(0.2) == raw
    assert subject.error == reason


@pytest.mark.parametrize("choices", ['{"index":0}', '[{"index":[]}]', '["x"]', "7", "null"])
def test_choices_of_another_shape_disturb_nothing(choices: str) -> None:
    raw = f'data: {{"choices":{choices},"usage":{{"completion_tokens":3}}}}\n\n'.encode()
    m = meter(strip=False)
    assert m.feed(raw, 1.0) == raw
    assert m.output_tokens == 3
    assert m.error is None


@pytest.mark.parametrize(
    "raw",
    [
        b'data: {"usage":{"completion_tokens":1},"choices":[{}]}\n\n',
        b'data: {"choices":[{}],"usage":{"completion_tokens":1}}\ndata: \n\n',
        b'data: {"choices":[{"text": "\\"usage\\":{}"}]}\n\n',
        b"data: x\n\n",
    ],
)
def test_an_event_of_another_shape_is_left_alone(raw: bytes) -> None:
    assert without_usage(raw, null=False) == raw


def test_clean_makes_one_short_line_that_can_be_written() -> None:
    assert clean("a\n b\ud800") == "a b\ufffd"
    assert len(clean("x" * 999)) == 200
