"""The built-in driver: in a process of its own, as it runs, and its requests alone."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from benchmark.config import Load, Structure, TestCase
from benchmark.errors import LoadError
from benchmark.load import builtin, llmperf
from benchmark.load.driver import LOG, Driver
from rehearsal.golden.schedule import Step
from rehearsal.golden.server import Fault, Golden
from tests.benchmark import samples
from tests.benchmark.tapped import server

CASE = TestCase.model_validate(samples.settings()["test_cases"][0])


def golden(*tokens: int, gap: float = 0.005) -> Golden:
    steps = [Step(gap * (index + 1), count) for index, count in enumerate(tokens)]
    return Golden(lambda prompt, number, length: steps)


def options(*extra: str, **changes: Any) -> Any:
    shape = Load.model_validate(samples.load(**changes))
    arguments = llmperf.arguments(
        shape, model="m", requests=shape.requests, results=Path("/r"), driver="closed-loop"
    )
    return builtin._parser().parse_args([*arguments, *extra])


async def run(endpoint: str, folder: Path, *, grace: float = 60.0, **changes: Any) -> Path:
    shape = Load.model_validate(samples.load(**changes))
    results = folder / "case" / "SD" / "round-1"
    await Driver(None, folder / "scratch").run(
        model="Qwen/Qwen3-32B",
        case=CASE,
        shape=shape,
        requests=shape.requests,
        endpoint=endpoint,
        results=results,
        grace_seconds=grace,
    )
    return results


def test_prompts_are_filled_with_the_case_s_line(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(llmperf.repeated("counting "), encoding="utf-8")
    bodies = list(builtin.requests_of(options("--text", str(text), requests=5)))
    assert len(bodies) == 5
    assert bodies == list(builtin.requests_of(options("--text", str(text), requests=5)))
    for body in bodies:
        assert body["max_tokens"] == 20
        assert body["temperature"] == 0.0
        assert body["stream"]
        assert "stream_options" not in body
        prompt = body["messages"][-1]["content"]
        assert len(prompt) == 64 * 4
        assert prompt.count("counting \n") > 10


def test_without_a_line_prompts_are_sonnets_and_differ() -> None:
    bodies = list(builtin.requests_of(options(requests=4, stddev_output_tokens=9)))
    prompts = {body["messages"][-1]["content"] for body in bodies}
    assert len(prompts) == 4
    assert any("summer" in prompt for prompt in prompts)
    assert len({body["max_tokens"] for body in bodies}) > 1


def test_given_prompts_are_sent_as_they_are_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    path.write_text('["Why?", "How so?"]', encoding="utf-8")
    bodies = list(builtin.requests_of(options("--prompts", str(path), requests=3)))
    assert [body["messages"] for body in bodies] == [
        [{"role": "user", "content": text}] for text in ("Why?", "How so?", "Why?")
    ]
    assert all(body["max_tokens"] == 20 and body["stream"] for body in bodies)


def test_given_prompts_are_sent_by_the_built_in_driver_even_where_llmperf_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # it is found from any folder
    case = TestCase(name="mine", line=None, prompts=("Why?",), structure=Structure.OPEN_ENDED)
    absent = llmperf.Installation("no-such-python", tmp_path)

    async def scenario() -> None:
        async with golden(1, 4) as server:
            await Driver(absent, tmp_path / "scratch").run(
                model="Qwen/Qwen3-32B",
                case=case,
                shape=Load.model_validate(samples.load()),
                requests=2,
                endpoint=server.url,
                results=tmp_path / "results",
            )
            assert [sent.prompt for sent in server.sent] == ["Why?", "Why?"]

    asyncio.run(scenario())
    assert llmperf.summary(tmp_path / "results")["driver"] == builtin.NAME


def test_writes_llmperf_s_files_by_llmperf_s_formulas(tmp_path: Path) -> None:
    async def scenario() -> Path:
        async with golden(1, 4, 8, 2, gap=0.02) as server:
            results = await run(server.url, tmp_path, requests=5, concurrency=2)
            assert len(server.sent) == 5
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
    running = driver.run(
        model="m",
        case=CASE,
        shape=Load.model_validate(samples.load()),
        requests=2,
        endpoint="http://127.0.0.1:1/v1",
        results=tmp_path / "results",
    )
    with pytest.raises(LoadError, match="llmperf ended with status 1: no tokenizer here"):
        asyncio.run(running)
    assert (tmp_path / "results" / LOG).read_text(encoding="utf-8").startswith("hello")
