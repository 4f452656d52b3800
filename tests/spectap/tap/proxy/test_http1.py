"""What of a message belongs to one connection, and how an answer of any kind is framed."""

from __future__ import annotations

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectap.tap.proxy import http1
from spectap.tap.proxy.http1 import Headers, Request


def request(method: bytes = b"GET", *, body: bytes = b"", http10: bool = False) -> Request:
    return Request(method, b"/v1/models", [(b"X-Own", b"1")], body, not http10, not http10)


def test_what_concerns_one_connection_is_not_passed_on() -> None:
    headers = [
        (b"Connection", b"close, X-Private"),
        (b"x-private", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Upgrade", b"h2c"),
        (b"Set-Cookie", b"a"),
        (b"set-cookie", b"b"),
    ]
    assert http1.end_to_end(headers) == [(b"Set-Cookie", b"a"), (b"set-cookie", b"b")]


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [(b"GET", b"", None), (b"POST", b"", b"0"), (b"POST", b"four", b"4"), (b"DELETE", b"x", b"1")],
)
def test_a_request_says_how_long_it_is(method: bytes, body: bytes, length: bytes | None) -> None:
    message = http1.encode_request(request(method, body=body), b"host:1")
    head, _, content = message.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[:2] == [method + b" /v1/models HTTP/1.1", b"Host: host:1"]
    assert b"X-Own: 1" in lines
    assert b"Connection: close" in lines
    assert (length is None) is (b"Content-Length" not in head)
    assert length is None or b"Content-Length: " + length in lines
    assert content == body


LENGTH: Headers = [(b"Content-Length", b"7")]
CHUNKED: Headers = [(b"Transfer-Encoding", b"chunked")]


@pytest.mark.parametrize(
    ("sent", "status", "headers", "changes", "expected"),
    [
        # bodiless, until_close, chunked, keep_alive
        (request(), 200, LENGTH, False, (False, False, False, True)),
        (request(), 200, LENGTH, True, (False, False, True, True)),
        (request(), 200, CHUNKED, False, (False, False, True, True)),
        (request(), 200, [], False, (False, True, True, True)),
        (request(b"HEAD"), 200, LENGTH, False, (True, False, False, True)),
        (request(), 204, [], False, (True, False, False, True)),
        (request(), 304, LENGTH, False, (True, False, False, True)),
        (request(http10=True), 200, LENGTH, False, (False, False, False, False)),
        (request(http10=True), 200, CHUNKED, False, (False, False, False, False)),
        (request(http10=True), 200, [], False, (False, True, False, False)),
    ],
)
def test_the_framing_of_an_answer(
    sent: Request,
    status: int,
    headers: Headers,
    changes: bool,
    expected: tuple[bool, bool, bool, bool],
) -> None:
    framing = http1.frame(sent, status, b"Reason", headers, changes=changes)
    bodiless, until_close, chunked, keep_alive = expected
    assert framing.bodiless is bodiless
    assert framing.until_close is until_close
    assert framing.chunked is chunked
    assert framing.keep_alive is keep_alive
    assert framing.head.startswith(b"HTTP/1.1 %d Reason\r\n" % status)
    assert (b"Connection: close\r\n" in framing.head) is not keep_alive
    assert (b"Transfer-Encoding: chunked\r\n" in framing.head) is chunked
    assert (b"Content-Length: 7\r\n" in framing.head) is (headers == LENGTH and not changes)


class Read:
    """What a client's parser makes of an answer."""

    def __init__(self, data: bytes) -> None:
        self.body, self.complete = b"", False
        httptools.HttpResponseParser(self).feed_data(data)

    def on_body(self, chunk: bytes) -> None:
        self.body += chunk

    def on_message_complete(self) -> None:
        self.complete = True


@given(st.lists(st.binary(max_size=50), min_size=1))
def test_any_body_in_any_parts_comes_out_as_it_went_in(chunks: list[bytes]) -> None:
    framing = http1.frame(request(), 200, b"OK", [], changes=True)
    sent = [framing.encode(chunk, last=False) for chunk in chunks[:-1]]
    sent.append(framing.encode(chunks[-1], last=True))
    read = Read(framing.head + b"".join(sent))
    assert (read.body, read.complete) == (b"".join(chunks), True)
