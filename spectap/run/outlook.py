"""What a run is going to cost: the requests and tokens it sends, and how long that takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from spectap.config import Config
from spectap.load.cases import of_round
from spectap.load.requests import estimated_tokens
from spectap.load_points import LoadPoint
from spectap.prompt import Prompt
from spectap.record import Record
from spectap.run.attempts import Turn


def amounts(
    config: Config, turns: Sequence[Turn], prompts: Mapping[str, Sequence[Prompt]]
) -> tuple[int, int, int]:
    """Requests, tokens in them and tokens in their longest answers, over these turns and variants.

    The tokens of ``prompts``, which are those of each test case that has any, are estimated.
    """
    load, requests, tokens_in, tokens_out = config.load, 0, 0, 0
    for turn in turns:
        point = load.point(turn.load)
        requests += point.requests
        sent = of_round(prompts.get(turn.case, ()), turn.round, point.requests)
        for prompt in sent:
            tokens_in += estimated_tokens(json.dumps(prompt.messages, ensure_ascii=False))
            tokens_out += prompt.max_tokens or load.mean_output_tokens
        if not sent:
            tokens_in += point.requests * load.mean_input_tokens
            tokens_out += point.requests * load.mean_output_tokens
    variants = len(config.variants)
    return variants * requests, variants * tokens_in, variants * tokens_out


def seconds(
    config: Config, turns: Sequence[Turn], warm: Sequence[Record], warm_seconds: float
) -> float | None:
    """How long these turns take, if each answer takes as long as the longest of the warm-up.

    ``warm_seconds`` is what the warm-up took, which is one wave; what it took beyond its answers,
    each turn does. None where a variant answered nothing.
    """
    answers = [
        max((r.end for r in warm if r.variant == name and r.succeeded), default=None)
        for name in config.names
    ]
    known = [answer for answer in answers if answer is not None]
    if len(known) < len(answers):
        return None
    together = sum if config.alternate else max
    beyond = max(0.0, warm_seconds - together(known))
    points = [config.load.point(turn.load) for turn in turns]
    return sum(beyond + together([_lasts(point, one) for one in known]) for point in points)


def _lasts(point: LoadPoint, answer: float) -> float:
    if point.concurrency is not None:
        return -(-point.requests // point.concurrency) * answer
    return point.requests / point.amount + answer
