"""A golden endpoint's own record of a request, against which a measurement is checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from rehearsal.golden import asked


@dataclass
class Sent:
    """One request. Times are of the monotonic clock, which all processes of a machine share."""

    id: str
    received: float
    prompt: str
    chunks: list[tuple[float, int]] = field(default_factory=list)
    """Time and tokens of each step, the prefill first. For an answer that is sent in one piece, the
    times at which its steps were due."""
    beyond: int = 0
    """Tokens that its last step yielded after the answer's last."""
    whole: bool = False
    """Whether it was served to its end."""
    finish: str = "length"
    """Why the answer ends, as the server says it."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return asked.tokens_of(self.prompt)

    @property
    def tokens(self) -> int:
        """Tokens sent so far."""
        return sum(count for _, count in self.chunks)

    @property
    def ttft(self) -> float:
        """Seconds from the arrival of the request to its first token."""
        return self.chunks[0][0] - self.received

    @property
    def time_per_output_token(self) -> float:
        """Seconds per token after the first chunk, from the times at which chunks were sent."""
        after_first = self.tokens - self.chunks[0][1]
        return (self.chunks[-1][0] - self.chunks[0][0]) / after_first
