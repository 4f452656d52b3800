"""One request, as the tap saw it: a line of the ledger."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, overload

from pydantic import ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator
from typing_extensions import override

# A foreign ledger may say anything. These are far beyond all that is true, and can be summed up.
_MOST: Final = 2**53
_LONGEST: Final = 1e11
Amount = Annotated[int, Field(ge=0, le=_MOST)]
Seconds = Annotated[float, Field(ge=0, le=_LONGEST)]

CANCELLED: Final = "cancelled by the client"
"""The error of a request that its client gave up, as an interrupted load does."""

STALLED: Final = "stalled"
"""The start of the error of a request whose server sent nothing for too long."""


Chunk = tuple[Seconds, Amount]


class Chunks(Sequence[Chunk]):
    """Chunks in two columns. A tuple for each would take five times the memory."""

    __slots__ = ("counts", "times")

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        """Raises ValueError, TypeError and OverflowError for what are no pairs of numbers."""
        times, counts = zip(*chunks, strict=True) if chunks else ((), ())
        self.times, self.counts = array("d", times), array("q", counts)

    @overload
    def __getitem__(self, at: int) -> Chunk: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Chunk, ...]: ...
    @override
    def __getitem__(self, at: int | slice) -> Chunk | tuple[Chunk, ...]:
        if isinstance(at, slice):
            return tuple(zip(self.times[at], self.counts[at], strict=True))
        return self.times[at], self.counts[at]

    @override
    def __iter__(self) -> Iterator[Chunk]:
        return zip(self.times, self.counts, strict=True)

    @override
    def __len__(self) -> int:
        return len(self.times)

    @override
    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, Chunks) else other)

    __hash__ = None  # type: ignore[assignment]  # typeshed gives every object one


def _packed(content: Any, validate: ValidatorFunctionWrapHandler) -> Chunks:
    """Packs well-formed chunks without validation, for a ledger has millions; validates others."""
    try:
        chunks = Chunks(content)
        right = min(chunks.times) >= 0 and sum(chunks.times) <= _LONGEST
        if right and min(chunks.counts) >= 0 and sum(chunks.counts) <= _MOST:
            return chunks
    except (TypeError, ValueError, OverflowError):
        pass
    return Chunks(validate(content))


@dataclass(frozen=True)
class Speculation:
    """The speculation in one answer, by the server's own count."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)

    drafts: int
    """Draft tokens that were verified."""
    accepted: int
    """Draft tokens that the target agreed with, before the answer was cut at its end."""
    steps: int | None = None
    """Steps that had drafts to verify; null where the server does not count them."""


@dataclass(frozen=True, slots=True)
class Record:
    """One request, as the tap saw it: a line of ledger.jsonl."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)

    run: str
    """The run's name."""
    variant: str
    """The name of the variant, or of the endpoint."""
    case: str
    """The name of the test case."""
    round: Annotated[int, Field(ge=-1, le=10**6)]
    """The round, from 1. 0 is the warm-up and -1 a control load: no figure uses them."""
    request: str
    """The request's name, unique in the run."""
    sent: Seconds
    """When the tap sent it, in Unix seconds."""
    status: int | None
    """The HTTP status; null where no answer came."""
    error: str | None
    """The error; null where the answer came whole."""
    prompt_tokens: Amount | None
    """Tokens of the prompt, by the server's usage; null where it gave none."""
    output_tokens: Amount | None
    """Tokens of the answer, by the server's usage; null where it gave none."""
    stream: bool
    """Whether the answer was streamed."""
    per_chunk: bool
    """Whether the server said how many tokens each chunk carried."""
    chunks: Annotated[Sequence[Chunk], WrapValidator(_packed)]
    """The chunks that carried tokens: seconds after ``sent``, and the number of tokens, which is 0
    where the server did not say."""
    end: Seconds
    """The end of the answer, in seconds after ``sent`` by a monotonic clock: its last token, or its
    last byte if it failed or brought no tokens one by one."""
    attempt: Amount = 1
    """The number of the attempt at that turn, from 1."""
    load: str = ""
    """The name of the load point; empty where no configuration names one."""
    prompt: str = ""
    """The name of the prompt in its set; empty where prompts have no names."""
    prompt_class: str = ""
    """The class that the set gives that prompt; empty where it gives none."""
    due: Seconds | None = None
    """The time at which it was due, in Unix seconds; null in a closed loop."""
    came: Seconds | None = None
    """The time at which it reached the tap, in Unix seconds, if it was due at a time. It is sent a
    little later, because the connection to the server is made first."""
    tools: bool = False
    """Whether the request offers tools. A server reads a tool call before it streams it, so it
    holds chunks back, and one may bring what several steps yielded."""
    launch: Amount = 0
    """The launch of the servers it was sent to, from 1; 0 where a run launches them once, and where
    nobody knows."""
    characters: Amount | None = None
    """Characters of the answer's text; null where thoughts or calls of tools are tokens, too."""
    hidden_tokens: Amount = 0
    """Tokens of thoughts that the usage counts and the server did not stream."""
    finish: str | None = None
    """OpenAI's ``finish_reason``; null where the server gave none."""
    choices: Amount = 1
    """The number of answers that the request asked for (``n``). Their tokens are counted together
    and their chunks are mixed, so they have no time per output token and show no steps."""
    model: str = ""
    """The model that the answer names, where it is not the one asked for; else empty."""
    cached_tokens: Amount | None = None
    """Tokens of the prompt in the server's cache, by its usage; null where it does not say."""
    speculation: Speculation | None = None
    """The drafts of the answer; null where the server does not tell."""
    lag: float = 0.0
    """The mean wait of an event for the client, in seconds: for the tap, or for a driver that
    reported its own, whichever is longer."""
    version: Literal[1] = 1
    """The version of this format."""

    @property
    def times(self) -> Sequence[float]:
        """The time of each chunk, in seconds after ``sent``."""
        chunks = self.chunks
        return chunks.times if isinstance(chunks, Chunks) else [time for time, _ in chunks]

    @property
    def counts(self) -> Sequence[int]:
        """The tokens of each chunk."""
        chunks = self.chunks
        return chunks.counts if isinstance(chunks, Chunks) else [tokens for _, tokens in chunks]

    @property
    def shows_steps(self) -> bool:
        """Whether each chunk after the first is one step with a known number of tokens."""
        return self.per_chunk and not self.tools and self.choices == 1

    @property
    def succeeded(self) -> bool:
        """Whether the answer is complete, with status 200."""
        return self.error is None and self.status == 200

    @property
    def uncounted(self) -> bool:
        """Whether the answer is complete and its number of tokens unknown."""
        return self.succeeded and self.output_tokens is None

    @property
    def stalled(self) -> bool:
        """Whether the server sent nothing for too long."""
        return self.error is not None and self.error.startswith(STALLED)

    @property
    def failed(self) -> bool:
        """Whether it failed by itself, and was not cut off by an interruption."""
        return not self.succeeded and self.error != CANCELLED
