"""Loads that are in no figure: a warm-up, and the controls of a variant that is measured alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from spectap.config import Config
from spectap.errors import RunError
from spectap.load.cases import of_round
from spectap.names import CONTROL, WARM_UP
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run.attempts import Attempts, Turn
from spectap.run.folder import writing
from spectap.run.taps import Taps

_SEND_USAGE: Final = (
    'its tokens cannot be counted. Make it honour stream_options {"include_usage": true}, which is '
    "sent with each request, or send usage always (vLLM: --enable-force-include-usage; LiteLLM: "
    "general_settings: always_include_stream_usage: true)"
)


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

    async def warm_up(self) -> Sequence[Record]:
        """A server's first requests take many times as long. Returns what came of them.

        Raises RunError where a server sends no usage: without tokens there is nothing to compare.
        """
        self._say("warming up")
        _, records, failure = await self._wave(WARM_UP)
        if failure is not None:
            self._say(f"warm-up: {failure}")
        uncounted = [
            f"{name} ({url}) streams answers without usage: {_SEND_USAGE}"
            for name, url in self._config.endpoints.items()
            if (own := [r for r in records if r.variant == name and r.succeeded])
            and all(record.output_tokens is None for record in own)
        ]
        if uncounted:
            raise RunError("\n".join(uncounted))
        return records

    async def control(self) -> str | None:
        """The same load each time: shows what changes. Returns what went wrong.

        Raises RunError where it cannot be noted.
        """
        self._say("control load")
        turn, _, failure = await self._wave(CONTROL)
        with writing(self._folder):
            await self._taps.flush()
            self._attempts.note(turn, failure)
        if failure is not None:
            self._say(f"failed: control load: {failure}")
        return failure

    async def _wave(self, round: int) -> tuple[Turn, Sequence[Record], str | None]:
        point = self._config.wave
        turn = Turn(round, self._config.test_cases[0].name, point.name)
        prompts = of_round(self._prompts.get(turn.case, ()), turn.round, point.requests)
        attempt = self._attempts.begin(turn)
        records, failure = await self._taps.load(turn, attempt, point, prompts)
        return turn, records, failure
