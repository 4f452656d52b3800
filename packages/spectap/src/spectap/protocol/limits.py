"""Limits on what clients and servers may send, so that none takes others' memory or time.

Each limit is far above what a language model's server sends. Passing a limit is a refusal. Up to
one read (256 KiB) beyond the limit may be held.
"""

import errno
from typing import Any, Final

KIB: Final = 2**10
MIB: Final = 2**20

HEAD: Final = 64 * KIB
"""Bytes of a message's head, and of whatever else comes before the next part of a body: 1xx
answers, chunk extensions, trailers."""
FRAMING: Final = 8 * MIB
"""Bytes of a whole message that are not part of its body. A chunk for each event of the longest
stream takes 2 MiB."""
REQUEST: Final = 64 * MIB
"""Bytes of a request's body, which may hold images."""
REQUEST_SECONDS: Final = 120.0
"""Seconds that a client may take to send a request, and to leave after a refusal."""
EVENT: Final = 4 * MIB
"""Bytes of one event of a stream."""
EVENTS: Final = 2**18
"""Events of a stream: twice the longest answer of models, 131,072. Their times take 30 MB."""
TOKENS: Final = 2**24
"""Tokens of a prompt or an answer. The longest context of a model has 10 million."""
STREAM: Final = 256 * MIB
"""Bytes of a streamed answer."""
ANSWER: Final = 16 * MIB
"""Bytes of an answer that is not streamed. It is held until its end."""


SHORTAGE: Final = "the client ran out of file descriptors (ulimit -n)"
"""The error of a request for which this machine had no file descriptor."""


def short_of_files(error: object) -> bool:
    """Whether an error is a lack of file descriptors in this process or machine."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class LimitError(Exception):
    """A message is too long. The text is one line: which part, and the limit."""

    def __init__(self, subject: str, limit: int, unit: str = "") -> None:
        if not unit:
            limit, unit = (limit // MIB, "MiB") if limit >= MIB else (limit // KIB, "KiB")
        super().__init__(f"too long: {subject} has more than {limit:,} {unit}")


def whole(count: Any) -> int | None:
    """A number of tokens as a server sent it; None for values that cannot be one."""
    return count if type(count) is int and 0 <= count <= TOKENS else None


def check(subject: str, size: int, limit: int, unit: str = "") -> None:
    """Raises LimitError where ``size`` is above ``limit``."""
    if size > limit:
        raise LimitError(subject, limit, unit)
