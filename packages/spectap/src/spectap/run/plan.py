"""What a run sends: in each turn, and over all of them how much and for how long."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spectap.config import Config
from spectap.load.cases import of_turn
from spectap.load.driver import Driver
from spectap.load_points import LoadPoint
from spectap.names import WARM_UP
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run.turns import Turn
from spectap.text import estimated_tokens


@dataclass(frozen=True)
class Plan:
    """What is sent in the turns of a run, warm-ups and controls included."""

    config: Config
    driver: Driver
    prompts: Mapping[str, Sequence[Prompt]] = field(default_factory=dict)
    """Those of each test case that has any."""

    def wave(self, round: int) -> Turn:
        """A load that is in no figure: one wave of the first test case."""
        return Turn(round, self.config.test_cases[0].name, self.config.wave.name)

    def point(self, turn: Turn) -> LoadPoint:
        load = self.config.load
        return load.point(turn.load) if turn.round > WARM_UP else self.config.wave

    def label(self, turn: Turn) -> str:
        """The test case, with the load point where there are several."""
        several = len(self.config.load.points) > 1
        return f"{turn.case} at {self.point(turn)}" if several else turn.case

    def fill(self, turn: Turn) -> int:
        """How many requests come before those that count: none in a load that is in no figure."""
        point, named = self.point(turn), bool(self.prompts.get(turn.case))
        if turn.round <= WARM_UP or self.driver.uses_llmperf(self.config.load, point, named=named):
            return 0
        return point.fill

    def sent(self, turn: Turn) -> Sequence[Prompt]:
        """The prompts of a turn, if its test case has any: first those that do not count."""
        prompts, load = self.prompts.get(turn.case, ()), self.config.load
        return of_turn(prompts, load, turn.round, self.point(turn), self.fill(turn))

    def counted(self, turns: Sequence[Turn]) -> int:
        """The requests of these turns that count, over all variants."""
        return sum(self.point(turn).requests for turn in turns) * len(self.config.variants)

    def amounts(self, turns: Sequence[Turn]) -> tuple[int, int, int]:
        """Requests, tokens in them and tokens in their longest answers, over all variants.

        The tokens of prompts are estimated.
        """
        load, requests, tokens_in, tokens_out = self.config.load, 0, 0, 0
        for turn in turns:
            count = self.fill(turn) + self.point(turn).requests
            requests += count
            prompts = self.sent(turn)
            if not prompts:
                tokens_in += count * load.mean_input_tokens
                tokens_out += count * load.mean_output_tokens
            for prompt in prompts:
                tokens_in += estimated_tokens(json.dumps(prompt.messages, ensure_ascii=False))
                tokens_out += prompt.max_tokens or load.mean_output_tokens
        variants = len(self.config.variants)
        return variants * requests, variants * tokens_in, variants * tokens_out

    def seconds(
        self, turns: Sequence[Turn], warm_up: Sequence[Record], warm_up_seconds: float
    ) -> float | None:
        """How long these turns take, if each answer takes as long as the longest of the warm-up.

        ``warm_up_seconds`` is what the warm-up took, which is one wave; what it took beyond its
        answers, each turn does. None where a variant answered nothing.
        """
        answers = []
        for name in self.config.names:
            ends = [r.end for r in warm_up if r.variant == name and r.succeeded]
            if not ends:
                return None
            answers.append(max(ends))
        together = sum if self.config.alternate else max
        beyond = max(0.0, warm_up_seconds - together(answers))
        total, rounds = 0.0, len({turn.round for turn in turns})
        for turn in turns:
            point = self.point(turn)
            if point.concurrency is None:
                lengths = [point.requests / point.amount + answer for answer in answers]
            else:
                waves = -(-(self.fill(turn) + point.requests) // point.concurrency)
                lengths = [waves * answer for answer in answers]
            total += beyond + together(lengths)
        load = self.config.load
        gap = 60 * load.spread_minutes / max(1, load.rounds.at_most - 1)
        return max(total, (rounds - 1) * gap + total / max(1, rounds))
