"""The built-in driver, in a process of its own, as it runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import TypeAdapter

from rehearsal.golden.faults import Fault
from spectap.answer import Answer
from spectap.config import TestCase
from spectap.errors import LoadError
from spectap.load import builtin, llmperf, loops
from spectap.load.driver import LOG, Driver
from spectap.load_points import Load, LoadPoint
from spectap.names import DUE_HEADER, PROMPT_HEADER
from spectap.prompt import Prompt
from tests.spectap import samples
from tests.spectap.load.options import TOOL, prompt
from tests.spectap.tapped import golden, server

SEED = "counting/rate-20/1"
ANSWER = TypeAdapter(Answer)

CASE = TestCase.model_validate(samples.settings()["test_cases"][0])


def folder_of(folder: Path) -> Path:
    return folder / "llmperf" / "counting" / "SD" / "round-1"


async def run(
    endpoint: str,
    folder: Path,
    *,
    driver: llmperf.Installation | None = None,
    prompts: Sequence[Prompt] = (),
    point: LoadPoint | None = None,
    answers: Path | None = None,
    grace: float = 60.0,
    **changes: Any,
) -> Path:
    shape = Load.model_validate(samples.load(**changes))
    point = point or shape.points[0]
    await Driver(driver, folder / "scratch").run(
        model="Qwen/Qwen3-32B",
        case=CASE,
        prompts=prompts,
        shape=shape,
        point=point,
        seed=SEED,
        endpoint=endpoint,
        results=folder_of(folder),
        answers=answers,
        grace_seconds=grace,
    )
    return folder_of(folder)


def test_prompts_of_a_set_are_sent_by_the_built_in_driver_even_where_llmperf_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # it is found from any folder
    absent = llmperf.Installation("no-such-python", tmp_path)
    answers = tmp_path / "answers.jsonl"

    async def scenario() -> None:
        async with golden(1, 4) as server:
            prompts = [prompt("a", "Why?"), prompt("b", "How so?", tools=[TOOL])]
            await run(server.url, tmp_path, driver=absent, prompts=prompts, answers=answers)
            asked = {tuple(sent.prompt.splitlines()[:2]) for sent in server.sent}
            assert asked == {("Be brief.", "Why?"), ("Be brief.", "How so?")}

    asyncio.run(scenario())
    assert llmperf.summary(folder_of(tmp_path))["driver"] == builtin.CLOSED
    lines = answers.read_bytes().splitlines()
    text, call = sorted(map(ANSWER.validate_json, lines), key=lambda answer: answer.prompt)
    assert (text.prompt, len(text.content.split()), text.tool_calls) == ("a", 5, ())
    assert (call.prompt, call.content) == ("b", "")
    assert [made.name for made in call.tool_calls] == ["weather"]
    assert isinstance(json.loads(call.tool_calls[0].arguments), dict)


def test_rates_are_driven_by_the_built_in_driver_even_where_llmperf_is(tmp_path: Path) -> None:
    absent = llmperf.Installation("no-such-python", tmp_path)
    point = LoadPoint(rate=20, requests=8)
    heads: list[tuple[float, float, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        now, due = time.time(), float(request.headers[DUE_HEADER])
        heads.append((due, now, request.headers.get(PROMPT_HEADER)))
        await asyncio.sleep(0.5)  # longer than all gaps
        return web.Response(body=b"data: [DONE]\n\n")

    async def scenario() -> Path:
        async with server(answer) as url:
            prompts = [prompt("a"), prompt("b")]
            return await run(url, tmp_path, driver=absent, point=point, prompts=prompts)

    results = asyncio.run(scenario())
    heads.sort()
    assert [name for _, _, name in heads] == ["a", "b"] * 4
    expected = loops.arrivals(20, SEED, 8)
    found = [due - heads[0][0] + expected[0] for due, _, _ in heads]
    assert found == pytest.approx(expected, abs=1e-4)
    assert all(now >= due for due, now, _ in heads)
    summary = llmperf.summary(results)
    assert summary["driver"] == builtin.OPEN
    assert summary["requests_per_second"] == 20
    assert "num_concurrent_requests" not in summary
    assert summary["results_num_completed_requests"] == 8


def test_a_rate_s_requests_that_are_due_too_late_are_not_sent(tmp_path: Path) -> None:
    async def scenario() -> Path:
        async with golden(1, 1) as server:
            point = LoadPoint(rate=4, requests=40)
            results = await run(server.url, tmp_path, point=point, timeout_seconds=1)
            assert len(server.sent) < 20
            return results

    assert 0 < len(llmperf.responses(asyncio.run(scenario()))) < 20


def test_writes_llmperf_s_files_by_llmperf_s_formulas(tmp_path: Path) -> None:
    async def scenario() -> Path:
        async with golden(1, 4, 8, 2, gap=0.02) as server:
            results = await run(server.url, tmp_path, requests=5, concurrency=2)
            assert len(server.sent) == 6  # one more, while the fifth was still answered
            return results

    results = asyncio.run(scenario())
    responses = llmperf.responses(results)
    assert len(responses) == 5
    for response in responses:
        assert response.error is None
        # Four chunks at 20, 40, 60 and 80 ms, and the role's: five events.
        # A busy machine makes any of them later, none earlier.
        assert 0.02 <= response.ttft < 5 * response.inter_token_latency
        assert 0.08 <= 5 * response.inter_token_latency <= response.end_to_end
    summary = llmperf.summary(results)
    assert summary["driver"] == "closed-loop"
    assert summary["results_num_completed_requests"] == 5
    assert summary["results_number_errors"] == 0


def test_keeps_as_many_requests_in_flight_as_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(1, 1, gap=0.1) as server:
            await run(server.url, tmp_path, requests=6, concurrency=3)
            begun = sorted(sent.received for sent in server.sent)
            assert begun[2] - begun[0] < 0.1 < begun[3] - begun[0] + 0.01
            assert begun[5] - begun[3] < 0.1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fault", "code"), [(Fault.TOO_MANY, 429), (Fault.RESET, -1), (Fault.ERROR_EVENT, 500)]
)
def test_failed_requests_are_results_too(tmp_path: Path, fault: Fault, code: int) -> None:
    async def scenario() -> Path:
        async with golden(1, 4, 8, 2) as server:
            server.fault = fault
            return await run(server.url, tmp_path)

    results = asyncio.run(scenario())
    assert [response.error for response in llmperf.responses(results)] == [code, code]
    assert llmperf.summary(results)["results_number_errors"] == 2


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([b": ping", b'data: {"choices": []}', b'data:{"choices": [{"delta": {}}]}'], None),
        ([b'data: {"choices": [{"text": "no chat"}]}'], -1),
        ([b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": 3}]}'], None),
        (
            [b'data: {"choices": [{"delta": {"tool_calls": [{"index": null}, {"index": 1}]}}]}'],
            None,
        ),
        ([b'data: {"error": "out of memory"}'], -1),
        ([b"data: 1"], -1),
        ([b"data: <html>"], -1),
    ],
)
def test_answers_of_other_servers(tmp_path: Path, events: list[bytes], error: int | None) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\n\n".join([*events, b"data: [DONE]", b""]))

    async def scenario() -> Path:
        async with server(answer) as url:
            return await run(url, tmp_path)

    results = asyncio.run(scenario())
    assert [response.error for response in llmperf.responses(results)] == [error] * 2


def test_a_load_that_does_not_end_is_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with golden(1, 1) as server:
            server.fault = Fault.STALL
            with pytest.raises(LoadError, match="closed-loop did not end and was stopped"):
                await run(server.url, tmp_path, timeout_seconds=1, grace=0.5)

    asyncio.run(scenario())


def test_cancelling_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    create = asyncio.create_subprocess_exec

    async def remember(*command: Any, **options: Any) -> Any:
        process = await create(*command, **options)
        started.append(process.pid)
        return process

    async def scenario() -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", remember)
        async with golden(*[1] * 1000) as server:
            task = asyncio.create_task(run(server.url, tmp_path))
            async with asyncio.timeout(10):
                while not server.sent:
                    await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(ProcessLookupError):
            os.kill(started[0], signal.SIG_DFL)

    asyncio.run(scenario())


def test_a_driver_that_fails_is_quoted(tmp_path: Path) -> None:
    home = tmp_path / "llmperf"
    (home / "src" / "llmperf").mkdir(parents=True)
    script = "import sys; print('hello'); sys.exit('no tokenizer here')"
    (home / llmperf.SCRIPT).write_text(script, encoding="utf-8")
    environment = {"LLMPERF_HOME": str(home), "LLMPERF_PYTHON": "python3"}
    driver = Driver.choose(environment, tmp_path / "scratch")
    running = run("http://127.0.0.1:1/v1", tmp_path, driver=driver.installation)
    with pytest.raises(LoadError, match="llmperf ended with status 1: no tokenizer here"):
        asyncio.run(running)
    assert (folder_of(tmp_path) / LOG).read_text(encoding="utf-8").startswith("hello")
