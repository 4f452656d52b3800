"""Loads that are in no figure: a warm-up, and the controls of a variant that is measured alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmark.config import Config
from benchmark.load.cases import of_round
from benchmark.names import CONTROL, WARM_UP
from benchmark.prompt import Prompt
from benchmark.run.attempts import Attempts, Turn
from benchmark.run.folder import writing
from benchmark.run.taps import Taps


class Waves:
    """Each is one wave of the first test case."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        attempts: Attempts,
        prompts: Mapping[str, Sequence[Prompt]],
        taps: Taps,
        say: Callable[[str], None],
    ) -> None:
        self._config, self._folder, self._attempts = config, folder, attempts
        self._prompts, self._taps, self._say = prompts, taps, say

    async def warm_up(self) -> None:
        """A server's first requests take many times as long."""
        self._say("warming up")
        _, failure = await self._wave(WARM_UP)
        if failure is not None:
            self._say(f"warm-up: {failure}")

    async def control(self) -> str | None:
        """The same load each time: shows what changes. Returns what went wrong.

        Raises RunError where it cannot be noted.
        """
        self._say("control load")
        turn, failure = await self._wave(CONTROL)
        with writing(self._folder):
            await self._taps.flush()
            self._attempts.note(turn, failure)
        if failure is not None:
            self._say(f"failed: control load: {failure}")
        return failure

    async def _wave(self, round: int) -> tuple[Turn, str | None]:
        point = self._config.wave
        turn = Turn(round, self._config.test_cases[0].name, point.name)
        prompts = of_round(self._prompts.get(turn.case, ()), turn.round, point.requests)
        attempt = self._attempts.begin(turn)
        _, failure = await self._taps.load(turn, attempt, point, prompts)
        return turn, failure
