"""One request, as the tap saw it: a line of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CANCELLED: Final = "cancelled by the client"
"""The error of a request that its client gave up, as an interrupted load does."""

STALLED: Final = "stalled"
"""What the error begins with of a request whose server sent nothing for too long."""


@dataclass(frozen=True)
class Record:
    """One request, as the tap saw it.

    ``sent`` is in Unix seconds; ``end`` and the first of each pair of ``chunks`` are seconds after
    it, by a monotonic clock. ``chunks`` holds the events that carried tokens, and how many; where
    ``per_chunk`` is False the server did not say how many, the second of each pair is 0 and
    ``output_tokens`` is all there is. ``round`` 0 is the warm-up. ``attempt`` counts, from 1, how
    often a run measured the case in that round. ``status`` is None where no answer came; ``error``
    is None where it came whole.
    """

    run: str
    variant: str
    case: str
    round: int
    request: str
    sent: float
    status: int | None
    error: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    stream: bool
    per_chunk: bool
    chunks: tuple[tuple[float, int], ...]
    end: float
    attempt: int = 1
    """In ledgers from before attempts were counted, each is the first."""
    load: str = ""
    """The name of the load point; empty in ledgers from before there were several, and where no
    configuration names one."""
    prompt: str = ""
    """The name of the prompt in its set; empty where prompts have no names."""
    prompt_class: str = ""
    """The class that the set gives that prompt; empty where it gives none."""
    due: float | None = None
    """When it was to be sent, in Unix seconds; None in a closed loop, which has no schedule."""

    came: float | None = None
    """When it came to the tap, in Unix seconds, where it was due at a time. It is sent a little
    later: the connection to the server has to be made first."""
    tools: bool = False
    """Whether the request offers tools. A server reads a call before it streams it, so chunks are
    held back and one may bring what several steps yielded."""

    @property
    def shows_steps(self) -> bool:
        """Whether each chunk after the first is one step, and its tokens are known."""
        return self.per_chunk and not self.tools

    @property
    def succeeded(self) -> bool:
        """Whether the answer came whole, with status 200."""
        return self.error is None and self.status == 200

    @property
    def stalled(self) -> bool:
        """Whether the server sent nothing for too long."""
        return self.error is not None and self.error.startswith(STALLED)

    @property
    def failed(self) -> bool:
        """Whether it went wrong by itself, and was not cut off by an interruption."""
        return not self.succeeded and self.error != CANCELLED
