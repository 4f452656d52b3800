"""The built-in driver: when it sends, and what it makes of servers, in a process of its own."""

import asyncio
import errno
import gzip
import itertools
import json
import os
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import TypeAdapter

from spectap.errors import LoadError
from spectap.inputs.config import TestCase
from spectap.inputs.load_points import Load, LoadPoint
from spectap.inputs.prompt import Prompt
from spectap.load import builtin, llmperf
from spectap.load.driver import LOG, Driver
from spectap.load.requests import Request
from spectap.records.answer import Answer
from tests import samples
from tests.load.test_requests import TOOL, prompt
from tests.tapped import bench, eventually, golden, server

pytestmark = pytest.mark.anyio

SEED = "counting/rate-40/1"
RATE = LoadPoint(rate=40, requests=30)
ANSWER = TypeAdapter(Answer)
CASE = TestCase.model_validate(samples.settings()["test_cases"][0])
# Prompts as they are, and rates, need the built-in driver even where llmperf is installed.
ABSENT = llmperf.Installation("no-such-python", Path("/nowhere"))


def driver_of(results: Path) -> str:
    """The program that made a load, by its summary."""
    (path,) = results.glob("*_summary.json")
    return str(json.loads(path.read_bytes())["driver"])


def test_arrivals_are_a_poisson_process() -> None:
    times = builtin.arrivals(8, "seed", 4000)
    gaps = [after - before for before, after in itertools.pairwise([0.0, *times])]
    assert min(gaps) > 0
    # Exponential: the deviation is the mean. Both within five standard errors, at this seed.
    assert statistics.fmean(gaps) == pytest.approx(1 / 8, rel=0.08)
    assert statistics.stdev(gaps) == pytest.approx(1 / 8, rel=0.12)
    assert builtin.arrivals(8, "seed", 3) == times[:3] != builtin.arrivals(8, "b", 3)


async def test_an_open_loop_waits_for_no_answer_and_ends_at_the_deadline() -> None:
    ended = asyncio.Event()
    begun: list[str] = []

    async def send(item: str, due: float) -> float:
        begun.append(item)
        if len(begun) == 3:
            ended.set()
        await ended.wait()
        return due

    wall = time.time()
    opened = builtin.opened(
        "abcd", send, offsets=[0.01, 0.02, 0.05, 0.6], deadline=time.monotonic() + 0.5
    )
    dues = await asyncio.wait_for(opened, 20)
    assert begun == [*"abc"]
    assert [due - dues[0] for due in dues] == pytest.approx([0, 0.01, 0.04], abs=1e-5)
    assert wall <= dues[0] - 0.01 <= time.time()


async def closed_loop(
    send: Callable[[int, bool], Awaitable[Any]], count: int, concurrency: int, fill: int = 0
) -> list[Any]:
    return await builtin.closed(
        *(itertools.count(), send, bool),
        fill=fill,
        count=count,
        concurrency=concurrency,
        deadline=time.monotonic() + 60,
        others_run=lambda: False,
    )


async def test_a_closed_loop_is_full_from_the_first_that_counts_to_the_last() -> None:
    """Even where those that fill it end at different times, one of them fails, and the first that
    counts takes as long as many others."""
    in_flight, levels, sent = 0, defaultdict[int, list[int]](list), list[bool]()

    async def send(item: int, counts: bool) -> bool:
        nonlocal in_flight
        in_flight += 1
        sent.append(counts)
        for _ in range(30 if item == 3 else 2 + 2 * (item % 3)):
            levels[item].append(in_flight)
            await asyncio.sleep(0.01)
        in_flight -= 1
        return item != 1

    assert await closed_loop(send, 4, 3, fill=3) == [True] * 4
    assert sent[:7] == [False] * 3 + [True] * 4
    assert not any(sent[7:])
    assert [levels[item][0] for item in range(3, 7)] == [3] * 4
    # A slot may be empty for the moment between two of its items.
    assert sum(level == 3 for level in levels[3]) >= 26


async def test_a_server_that_refuses_is_not_asked_without_end() -> None:
    sent: list[tuple[int, bool]] = []

    async def send(item: int, counts: bool) -> bool:
        sent.append((item, counts))
        await asyncio.sleep(0.2 if item == 0 else 0)
        return counts

    await closed_loop(send, 2, 2)
    assert sent == [(0, True), (1, True), (2, False)]


def results_of(folder: Path) -> Path:
    return folder / "llmperf" / "counting" / "SD" / "round-1"


async def run(
    endpoint: str,
    folder: Path,
    *,
    driver: llmperf.Installation | None = None,
    prompts: Sequence[Prompt] = (),
    point: LoadPoint | None = None,
    answers: Path | None = None,
    **changes: Any,
) -> Path:
    shape = Load.model_validate(samples.load(**changes))
    await Driver(driver, folder / "scratch").run(
        model="Qwen/Qwen3-32B",
        case=CASE,
        prompts=prompts,
        load=shape,
        point=point or shape.points[0],
        seed=SEED,
        endpoint=endpoint,
        results=results_of(folder),
        answers=answers,
    )
    return results_of(folder)


async def test_prompts_of_a_set_at_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger has when each was due and was sent, and the answers come back whole."""
    monkeypatch.chdir(tmp_path)  # the driver is found from any folder
    names = [f"é/{number}" for number in range(RATE.requests)]
    prompts = [prompt(name, prompt_class="räumlich") for name in names[:-1]]
    prompts.append(prompt(names[-1], prompt_class="räumlich", tools=[TOOL]))
    answers = tmp_path / "answers.jsonl"
    async with golden(1, 4, 3) as endpoint, bench(endpoint.url, tmp_path) as b:
        await run(b.tap.url, tmp_path, driver=ABSENT, prompts=prompts, point=RATE, answers=answers)
        records = sorted(b.records(), key=lambda record: record.due or 0.0)
    assert [record.prompt for record in records] == names
    assert {record.prompt_class for record in records} == {"räumlich"}
    times = builtin.arrivals(40, SEED, RATE.requests)
    due = [record.due or 0.0 for record in records]
    assert [at - due[0] for at in due] == pytest.approx([at - times[0] for at in times], abs=1e-4)
    assert all(record.sent >= (record.due or 0.0) for record in records)
    by_prompt = {
        answer.prompt: answer
        for answer in map(ANSWER.validate_json, answers.read_bytes().splitlines())
    }
    assert {*by_prompt} == {*names}
    assert len(by_prompt[names[0]].content.split()) == 8
    assert [call.name for call in by_prompt[names[-1]].tool_calls] == ["weather"]
    assert driver_of(results_of(tmp_path)) == builtin.OPEN


async def test_no_redirect_is_followed_nothing_unpacked_and_no_key_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt goes nowhere else, and a small packed answer does not become a large one."""
    key = "sk-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    packed = gzip.compress(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n' * 2**17)
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if len(asked) == 1:
            return web.Response(status=307, headers={"Location": "/elsewhere"})
        if len(asked) == 2:
            return web.Response(body=packed, headers={"Content-Encoding": "gzip"})
        return web.Response(status=401, text=f"wrong key: {request.headers['Authorization']}")

    async with server(answer) as url:
        results = await run(url, tmp_path, requests=3, concurrency=1)
    (path,) = results.glob("*_individual_responses.json")
    text = path.read_text(encoding="utf-8")
    responses = json.loads(text)
    assert [response["error_code"] for response in responses] == [307, -1, 401]
    assert (responses[1]["number_output_tokens"], responses[2]["error_msg"]) == (
        0,
        "wrong key: Bearer ***",
    )
    assert key not in text
    assert asked == ["/v1/chat/completions"] * len(asked)
    assert driver_of(results) == builtin.CLOSED


async def test_a_process_ends_with_its_time_and_when_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    create = asyncio.create_subprocess_exec

    async def remember(*command: Any, **options: Any) -> Any:
        process = await create(*command, **options)
        started.append(process.pid)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", remember)
    async with golden(*[1] * 1000) as server:
        with monkeypatch.context() as patch:
            patch.setattr("spectap.load.driver.GRACE_SECONDS", -0.9)
            with pytest.raises(LoadError, match="closed-loop did not end and was stopped"):
                await run(server.url, tmp_path, timeout_seconds=1)
        task = asyncio.create_task(run(server.url, tmp_path))
        await eventually(lambda: bool(server.sent))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    for process in started:
        with pytest.raises(ProcessLookupError):
            os.kill(process, signal.SIG_DFL)


async def test_a_driver_that_fails_is_quoted(tmp_path: Path) -> None:
    home = tmp_path / "llmperf"
    (home / "src" / "llmperf").mkdir(parents=True)
    script = "import sys; print('hello'); sys.exit('no tokenizer here')"
    (home / llmperf.SCRIPT).write_text(script, encoding="utf-8")
    environment = {"LLMPERF_HOME": str(home), "LLMPERF_PYTHON": "python3"}
    driver = llmperf.find(environment)
    with pytest.raises(LoadError, match="llmperf ended with status 1: no tokenizer here"):
        await run("http://127.0.0.1:1/v1", tmp_path, driver=driver)
    assert (results_of(tmp_path) / LOG).read_text(encoding="utf-8").startswith("hello")


async def test_a_driver_without_descriptors_ends_in_a_line() -> None:
    class Session:
        def post(self, *_: Any, **__: Any) -> Any:
            raise aiohttp.ClientOSError(errno.EMFILE, "Too many open files")

    session: Any = Session()
    with pytest.raises(SystemExit, match=r"^the client ran out of file descriptors \(ulimit -n\)$"):
        await builtin._send(session, "http://127.0.0.1", Request(b""), {})
