"""What a job is asked: in each turn the requests that the built-in driver would send."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from spectap.config import Config, TestCase
from spectap.errors import RunError
from spectap.load import builtin, llmperf
from spectap.load.cases import of_round
from spectap.load.requests import requests_of
from spectap.names import WARM_UP
from spectap.offline.generation import Asked
from spectap.offline.left import Part
from spectap.prompt import Prompt
from spectap.run.attempts import Turn

_TEXT: Final = "text.txt"
_PROMPTS: Final = "prompts.jsonl"


def asked(
    config: Config, prompts: Mapping[str, Sequence[Prompt]], parts: Sequence[Part]
) -> Iterator[Asked]:
    """What is to be generated of these turns. Equal input, equal prompts, for every variant.

    ``prompts`` are those of test cases that have a set, by the test case's name. Raises RunError
    for a prompt that offers tools: nothing reads the calls of a job.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        for part in parts:
            yield from islice(_of_turn(config, prompts, part, Path(scratch)), part.done, None)


def sent(prompts: Sequence[Prompt], turn: Turn, requests: int) -> tuple[Prompt, ...]:
    """The prompts of a set that a turn asks; none where prompts have no names.

    Warm-up and control ask the shortest: a control that the graphs cannot take would leave the
    variant without one.
    """
    if turn.round <= WARM_UP:
        return tuple(sorted(prompts, key=_length)[:1]) * requests
    return of_round(prompts, turn.round, requests)


def _of_turn(
    config: Config, prompts: Mapping[str, Sequence[Prompt]], part: Part, scratch: Path
) -> Iterator[Asked]:
    turn, load = part.turn, config.load
    point = config.wave if turn.round <= WARM_UP else load.point(turn.load)
    case = {case.name: case for case in config.test_cases}[turn.case]
    named = sent(prompts.get(turn.case, ()), turn, point.requests)
    if tools := [prompt.name for prompt in named if prompt.tools]:
        raise RunError(f"{turn.case}: {tools[0]} offers tools, which a job does not read")
    arguments = llmperf.arguments(
        load, point, model=config.model, results=scratch, driver=builtin.CLOSED
    )
    options = builtin.parser().parse_args([*arguments, *_source(case, named, scratch)])
    for request in islice(requests_of(options), point.requests):
        body = json.loads(request.body)
        yield Asked(
            case=turn.case,
            load=turn.load,
            round=turn.round,
            attempt=part.attempt,
            prompt=request.prompt,
            prompt_class=request.prompt_class,
            messages=tuple(body["messages"]),
            chat_template_kwargs=body.get("chat_template_kwargs", {}),
            max_tokens=body["max_tokens"],
        )


def _source(case: TestCase, prompts: Sequence[Prompt], scratch: Path) -> list[str]:
    """What the driver makes its prompts of, as it takes it."""
    if prompts:
        path = scratch / _PROMPTS
        path.write_text("".join(f"{one.model_dump_json()}\n" for one in prompts), encoding="utf-8")
        return ["--prompts", str(path)]
    if case.line is None:
        return []
    text = scratch / _TEXT
    text.write_text(llmperf.repeated(case.line), encoding="utf-8")
    return ["--text", str(text)]


def _length(prompt: Prompt) -> tuple[int, str]:
    """In characters; among equals, by name."""
    return len(json.dumps([*prompt.messages], ensure_ascii=False)), prompt.name
