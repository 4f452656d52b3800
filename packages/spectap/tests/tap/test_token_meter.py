"""The meter counts every event and token, and removes what the client did not ask for."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.golden import answers
from spectap.tap.token_meter import Meter


def meter(strip: bool = True, usage_only: bool = False, null_usage: bool = False) -> Meter:
    return Meter(strip=strip, usage_only=usage_only, null_usage=null_usage)


def stream(answer: answers.Answer, counts: list[int], usage: bool) -> list[bytes]:
    """An answer's events; without ``usage`` those a client gets who does not ask for it."""
    events = [answer.role(usage)] if answer.chat else []
    total = 0
    for index, count in enumerate(counts):
        text = answers.words(total, count)
        total += count
        events.append(answer.chunk(text, index == len(counts) - 1, total, usage))
    if usage:
        events.append(answer.usage_only(total))
    return [*events, answers.DONE]


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
    answer = answers.Answer("id", "m", 1, chat, prompt_tokens=9)
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


def counted(*steps: tuple[int, Any], last: Any = None, content: str = "ab ") -> Meter:
    """The meter of a stream: words and usage of each event, and the usage of the whole."""
    subject = meter()
    for at, (words, total) in enumerate(steps):
        delta = {"content": content * words} if words else {}
        usage = {} if total is None else {"usage": {"completion_tokens": total}}
        choices = [{"index": 0, "delta": delta}]
        subject.feed(event(choices=choices, **usage), float(at))
    if last is not None:
        subject.feed(event(choices=[], usage=last), 99.0)
    return subject


def usage(total: Any) -> dict[str, Any]:
    return {"prompt_tokens": 9, "completion_tokens": total}


PER_STEP = [(1, 1), (4, 4), (4, 4), (3, 3), (1, 1)]


@pytest.mark.parametrize(
    ("steps", "last", "tokens"),
    [
        (PER_STEP, usage(13), 13),  # vllm-project/vllm#9357
        (PER_STEP, None, None),
        ([(1, 3)], usage(5), 5),  # which do not add up
        (PER_STEP, usage(1), None),
        ([(4, 4)] * 4, None, None),
        ([(4, 4)] * 4, usage(4), None),
        ([*PER_STEP, (0, 13)], None, 13),  # in the chunk that has the reason of the end
        ([(1, 1), (2, 3)], usage(0), None),
        ([(1, 1), (2, 3)], usage(None), None),
        ([(1, 1), (2, 3)], usage(2), None),
        ([(1, 1), (2, 3)], usage(3.0), None),
        ([(1, 1), (2, 3)], usage(2**63), None),
        ([(1, None), (2, None)], usage(True), None),
        ([(1, None), (2, None)], usage(1), None),
        ([(1, None), (2, None), (0, None)], None, None),
        ([(1, None), (2, 3)], None, 3),  # in the last chunk with content alone
        ([(1, 1), (2, 3), (1, True)], None, None),
        ([(1, 1), (0, 1), (2, 3)], None, 3),
    ],
)
def test_a_count_that_cannot_be_true_is_none(
    steps: list[tuple[int, Any]], last: Any, tokens: int | None
) -> None:
    subject = counted(*steps, last=last)
    assert subject.output_tokens == tokens
    events = [float(at) for at, (words, _) in enumerate(steps) if words]
    assert [at for at, _ in subject.chunks] == events
    assert not subject.per_chunk or tokens == 3


def test_what_one_step_yields_in_two_events_is_counted_once() -> None:
    """SGLang sends the end of a thought and the begin of the text apart, with one count."""
    subject = counted((1, 1), (2, 3), (1, 3), (2, 5), last=usage(5))
    assert (subject.output_tokens, subject.per_chunk) == (5, True)


@pytest.mark.parametrize(
    ("first", "hidden"),
    [
        ({"content": "a"}, 18),
        ({"reasoning_content": "a"}, 0),
        ({"content": "", "reasoning_details": [{"text": "a"}]}, 0),
    ],
)
@pytest.mark.parametrize("place", ["completion_tokens_details", ""])
def test_thoughts_that_are_counted_and_not_sent_are_hidden(
    first: dict[str, str], hidden: int, place: str
) -> None:
    details = {"reasoning_tokens": 18}
    subject = meter()
    for delta in ({"role": "assistant"}, first, {"content": "b"}):
        subject.feed(event(choices=[{"index": 0, "delta": delta}]), 0.2)
    last = usage(24) | ({place: details} if place else details)
    subject.feed(event(choices=[], usage=last), 0.3)
    assert subject.hidden_tokens == hidden
    assert subject.characters == 1 + bool(hidden)
