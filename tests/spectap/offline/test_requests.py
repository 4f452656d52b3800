"""A job is asked what the built-in driver sends to a server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from spectap.offline.left import Left
from spectap.offline.requests import asked

from spectap.config import Config
from spectap.load.driver import Driver
from spectap.prompt import Prompt
from tests.spectap import samples
from tests.spectap.offline import jobs
from tests.spectap.tapped import golden

NAMED = tuple(
    Prompt(name=name, messages=({"role": "user", "content": name * 3},)) for name in "abc"
)


@pytest.mark.parametrize("deviation", [0, 30])
@pytest.mark.parametrize("named", [False, True])
def test_the_prompts_of_a_turn_are_those_of_the_driver(
    tmp_path: Path, deviation: int, named: bool
) -> None:
    load = samples.load(
        concurrency=1, requests=3, stddev_input_tokens=deviation, stddev_output_tokens=deviation
    )
    config = Config.model_validate(jobs.settings(load=load))
    case, point = config.test_cases[0], config.load.points[0]
    prompts = {case.name: NAMED} if named else {}
    told = [
        one
        for one in asked(config, prompts, Left(config, []).parts)
        if (one.round, one.case) == (1, case.name)
    ]
    sent: list[Any] = []

    async def scenario() -> None:
        async with golden(1, 4) as server:
            await Driver(None, tmp_path / "scratch").run(
                model=config.model,
                case=case,
                # The driver is told which prompts a turn has; of a job, that is decided here.
                prompts=[one for name in told for one in NAMED if one.name == name.prompt],
                shape=config.load,
                point=point,
                seed="",
                endpoint=server.url,
                results=tmp_path / "a" / "b" / "c" / "d",
            )
            sent.extend(server.sent)

    asyncio.run(scenario())
    texts = ["\n".join(message["content"] for message in one.messages) for one in told]
    assert len(told) == 3
    # A closed loop stays full until the last request that counts has ended, and so sends more.
    assert [one.prompt for one in sent][:3] == [text.strip() for text in texts]
    assert {one.max_tokens for one in told} == {20} or deviation
    assert bool(told[0].prompt) == named
