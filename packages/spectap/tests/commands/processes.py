"""Commands, and servers in a thread for them to talk to."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from spectap.golden.schedule import Decoding
from spectap.golden.server import Acceptance, GoldenEndpoint, speculative

T = TypeVar("T")

ROOT = Path(__file__).parents[2]

MODEL = "Qwen/Qwen3-32B"
EMPTY = {"PYTHONPATH": str(ROOT / "src")}
"""An environment that has nothing but where the benchmark lies."""


class Ended(NamedTuple):
    """What became of a command."""

    status: object
    out: str
    err: str

    def refusal(self) -> str:
        """The one line of a command that cannot do what it was asked to."""
        assert (self.status, self.out) == (2, "")
        (line,) = self.err.splitlines()
        return line


Benchmark = Callable[..., Ended]
"""Runs a command: its arguments, and by keyword what its environment has besides."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "spectap", *arguments]


@contextmanager
def started(
    *arguments: str, environment: Mapping[str, str] | None = None, under: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """A command under way, started by the command ``under``; a test that fails kills it."""
    process = subprocess.Popen(
        [*under, *command(*arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def eventually(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def golden(drafts: int = 0, *, model: str = MODEL, speed: float = 50) -> GoldenEndpoint:
    """An endpoint that accepts most drafts; without drafts it decodes plainly."""
    schedule = speculative(Decoding(drafts=drafts, speed=speed), Acceptance(otherwise=0.9))
    return GoldenEndpoint(schedule, model)


@contextmanager
def serving(*servers: AbstractAsyncContextManager[T]) -> Iterator[tuple[T, ...]]:
    """Serves in a thread, so that a test can wait for a process meanwhile."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    async def start() -> tuple[T, ...]:
        return tuple([await stack.enter_async_context(server) for server in servers])

    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
