"""What a run sends in its turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spectap.config import Config
from spectap.load.cases import of_turn
from spectap.load.driver import Driver
from spectap.load_points import LoadPoint
from spectap.names import WARM_UP
from spectap.prompt import Prompt
from spectap.run.turns import Turn


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

    def requests(self, turns: Sequence[Turn]) -> int:
        """All requests of these turns over all variants, those that do not count included."""
        counts = (self.fill(turn) + self.point(turn).requests for turn in turns)
        return len(self.config.variants) * sum(counts)
