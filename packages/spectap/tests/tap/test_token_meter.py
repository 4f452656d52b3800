"""The meter counts every event and token, and removes what the client did not ask for."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.golden import wire
from spectap.tap.token_meter import Meter


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
    st.lists(st.integers(0, 4000), max_size=12) | st.just([*range(4000)]),
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_passes_on_what_the_client_would_have_got(
    counts: list[int], chat: bool, cuts: list[int], newline: bytes
) -> None:
    """Byte for byte, wherever the stream is cut; and no token is lost."""
    answer = wire.Answer("id", "m", 1, chat, prompt_tokens=9)
    raw, expected = (
        b": ping\n\n".join(stream(answer, counts, usage)).replace(b"\n", newline)
        for usage in (True, False)
    )
    subject = meter(null_usage=not chat)
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    passed = b""
    for number, (start, end) in enumerate(pairwise(bounds)):
        passed += subject.feed(raw[start:end], float(number))
    passed += subject.close(99.0)
    ping = b": ping" + newline + newline
    assert passed.replace(ping, b"") == expected.replace(ping, b"")
    assert [tokens for _, tokens in subject.chunks] == counts
    assert (subject.prompt_tokens, subject.output_tokens) == (9, sum(counts))
    assert subject.per_chunk
    assert subject.ending.done
    assert subject.problem() is None


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


def test_any_kind_of_content_is_content() -> None:
    subject = meter()
    role = {"role": "assistant", "content": ""}
    for delta in (role, {"content": "x"}, {"reasoning": "x"}, {"tool_calls": [{"index": 0}]}):
        subject.feed(event(choices=[{"index": 0, "delta": delta}]), 0.2)
    assert subject.chunks == [(0.2, 0)] * 3


@pytest.mark.parametrize("choices", ['{"index":0}', '[{"index":[]}]', '["x"]', "7"])
def test_choices_of_another_shape_disturb_nothing(choices: str) -> None:
    raw = f'data: {{"choices":{choices},"usage":{{"completion_tokens":3}}}}\n\n'.encode()
    m = meter(strip=False)
    assert m.feed(raw, 1.0) == raw
    assert m.output_tokens == 3
    assert m.ending.error is None
