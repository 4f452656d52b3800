"""Progress of a run, and its outlook beforehand: requests, tokens and time."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Never, TextIO

from tqdm import tqdm

from spectap.config import Config
from spectap.load.cases import of_turn
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run.turns import Turn
from spectap.text import estimated_tokens
from spectap.wording import printable


class Progress:
    """Counts requests of ``total``, from ``done`` on: a bar on a terminal, plain lines in a log.

    By tqdm: rich takes ten milliseconds to draw a bar, in the loop that reads the streams.
    """

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: tqdm[Never] | None = None
        if self._stream.isatty():
            self._bar = tqdm(
                total=total, initial=done, unit="request", file=self._stream, dynamic_ncols=True
            )
        self._total, self._done = total, done

    def begin(self, turn: str) -> None:
        """Names the turn that begins: at the bar, or in a line of the log."""
        if self._bar is not None:
            self._bar.set_description_str(printable(turn))
        else:
            self.say(turn)

    def advance(self) -> None:
        # llmperf may send a few more requests than it was asked for.
        if self._done < self._total:
            self._done += 1
            if self._bar is not None:
                self._bar.update()

    def expect(self, total: int) -> None:
        """Changes how many requests there are."""
        self._total = total
        if self._bar is not None:
            self._bar.total = total
            self._bar.refresh()

    def say(self, text: str) -> None:
        """Writes a line that stays, above the bar if there is one."""
        text = printable(text)
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(f"[{self._done}/{self._total}] {text}", file=self._stream, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def amounts(
    config: Config,
    turns: Sequence[Turn],
    prompts: Mapping[str, Sequence[Prompt]],
    fill: Callable[[Turn], int],
) -> tuple[int, int, int]:
    """Requests, tokens in them and tokens in their longest answers, over these turns and variants.

    The tokens of ``prompts``, which are those of each test case that has any, are estimated.
    ``fill`` is how many requests a turn sends before those that count.
    """
    load, requests, tokens_in, tokens_out = config.load, 0, 0, 0
    for turn in turns:
        point = load.point(turn.load)
        filling = fill(turn)
        count = filling + point.requests
        requests += count
        sent = of_turn(prompts.get(turn.case, ()), load, turn.round, point, filling)
        if not sent:
            tokens_in += count * load.mean_input_tokens
            tokens_out += count * load.mean_output_tokens
        for prompt in sent:
            tokens_in += estimated_tokens(json.dumps(prompt.messages, ensure_ascii=False))
            tokens_out += prompt.max_tokens or load.mean_output_tokens
    variants = len(config.variants)
    return variants * requests, variants * tokens_in, variants * tokens_out


def seconds(
    config: Config,
    turns: Sequence[Turn],
    warm_up: Sequence[Record],
    warm_up_seconds: float,
    fill: Callable[[Turn], int],
) -> float | None:
    """How long these turns take, if each answer takes as long as the longest of the warm-up.

    ``warm_up_seconds`` is what the warm-up took, which is one wave; what it took beyond its
    answers, each turn does. None where a variant answered nothing.
    """
    ends = {
        name: [r.end for r in warm_up if r.variant == name and r.succeeded] for name in config.names
    }
    if not all(ends.values()):
        return None
    answers = [max(of_variant) for of_variant in ends.values()]
    together = sum if config.alternate else max
    beyond = max(0.0, warm_up_seconds - together(answers))
    total, rounds = 0.0, len({turn.round for turn in turns})
    for turn in turns:
        point = config.load.point(turn.load)
        if point.concurrency is None:
            lengths = [point.requests / point.amount + answer for answer in answers]
        else:
            waves = -(-(fill(turn) + point.requests) // point.concurrency)
            lengths = [waves * answer for answer in answers]
        total += beyond + together(lengths)
    gap = 60 * config.load.spread_minutes / max(1, config.load.rounds.at_most - 1)
    return max(total, (rounds - 1) * gap + total / max(1, rounds))
