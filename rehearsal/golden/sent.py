"""What a golden endpoint knows of a request: the truth that a measurement is held against."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Sent:
    """One request: ``received`` and the times in ``chunks`` by the monotonic clock, which all
    processes of a machine share. A chunk is what a step yielded, the prefill first; of an answer
    sent in one piece they are the times at which it was to be computed. ``whole`` says that it was
    served to its end."""

    id: str
    received: float
    prompt: str
    chunks: list[tuple[float, int]] = field(default_factory=list)
    whole: bool = False

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
