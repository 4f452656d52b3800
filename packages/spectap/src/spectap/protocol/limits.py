"""How much a client or a server may send: none may take the memory or the time of other requests.

Each limit is far above what a language model's server sends. What a limit counts is refused when it
is passed, so up to one read (256 KiB) more may be held.
"""

import errno
from typing import Any, Final

KIB: Final = 2**10
MIB: Final = 2**20

HEAD: Final = 64 * KIB
"""Bytes of a message's head, and of whatever else comes without a part of the body: 1xx answers,
chunk extensions, trailers."""
FRAMING: Final = 8 * MIB
"""Bytes of a whole message that are not part of its body. A chunk for each event of the longest
stream takes 2 MiB."""
REQUEST: Final = 64 * MIB
"""Bytes of a request's body, which may hold images."""
REQUEST_SECONDS: Final = 120.0
"""How long a client may take to send a request, and to leave once it is refused."""
EVENT: Final = 4 * MIB
"""Bytes of one event of a stream."""
EVENTS: Final = 2**18
"""Events of a stream. Two times the longest answer that models give, 131,072
tokens. Their times take 30 MB."""
TOKENS: Final = 2**24
"""Tokens of a prompt or an answer: the longest context of a model has 10 million."""
STREAM: Final = 256 * MIB
"""Bytes of a streamed answer."""
ANSWER: Final = 16 * MIB
"""Bytes of an answer that is not streamed, and so is held until its end."""


SHORTAGE: Final = "the client ran out of file descriptors (ulimit -n)"
"""The error of a request that this machine could not send."""


def short_of_files(error: object) -> bool:
    """Whether an error is a lack of this process's or machine's own descriptors."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class LimitError(Exception):
    """A message is longer than it may be. The text is one line: what is, and the limit."""

    def __init__(self, subject: str, limit: int, unit: str = "") -> None:
        if not unit:
            limit, unit = (limit // MIB, "MiB") if limit >= MIB else (limit // KIB, "KiB")
        super().__init__(f"too long: {subject} has more than {limit:,} {unit}")


def whole(count: Any) -> int | None:
    """A number of tokens that a server sent; None where it cannot be one."""
    return count if type(count) is int and 0 <= count <= TOKENS else None


def check(subject: str, size: int, limit: int, unit: str = "") -> None:
    """Raises LimitError where ``size`` is above ``limit``."""
    if size > limit:
        raise LimitError(subject, limit, unit)
