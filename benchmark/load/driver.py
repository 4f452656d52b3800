"""Runs one round of load in a process of its own: llmperf, or the built-in driver."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import benchmark
from benchmark.config import Load, TestCase
from benchmark.errors import LoadError
from benchmark.load import builtin, llmperf
from benchmark.load.llmperf import Installation

LOG: Final = "driver.log"

# Beyond the load's own timeout, which a driver checks only between two requests. It covers a last
# request to a silent server (180 s), and the time that Ray takes to start and end.
GRACE_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Driver:
    """What makes the load: llmperf, or where ``installation`` is None the built-in driver.

    Prompts that are sent as they are need the built-in driver: llmperf makes its own.
    """

    installation: Installation | None
    scratch: Path

    @classmethod
    def choose(cls, environment: Mapping[str, str], scratch: Path) -> Driver:
        """llmperf, where it is installed. ``scratch`` is a folder for its private copies."""
        return cls(llmperf.find(environment), scratch)

    async def run(
        self,
        *,
        model: str,
        case: TestCase,
        shape: Load,
        requests: int,
        endpoint: str,
        results: Path,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        """Sends ``requests`` requests of one case to one endpoint; ``results`` takes the files.

        Cancelling it ends the load's processes. Raises LoadError.
        """
        installation = None if case.prompts else self.installation
        name = builtin.NAME if installation is None else llmperf.NAME
        # One folder for all rounds: a copy of llmperf for each of them would add up.
        scratch = self.scratch / "-".join(results.parts[-3:-1])
        try:
            results.mkdir(parents=True, exist_ok=True)
            if installation is None:
                command, extra = _builtin(scratch, case)
            else:
                command = installation.private_copy(scratch, case.line)
                extra = installation.environment(scratch, shape.concurrency)
            command += llmperf.arguments(
                shape, model=model, requests=requests, results=results, driver=name
            )
        except OSError as error:
            raise LoadError(str(error)) from None
        environment = {
            **os.environ,
            **extra,
            "OPENAI_API_BASE": endpoint,
            "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY") or "none",
        }
        status = await _execute(
            command, environment, results / LOG, shape.timeout_seconds + grace_seconds
        )
        if status is None:
            raise LoadError(f"{name} did not end and was stopped")
        if status != 0:
            raise LoadError(f"{name} ended with status {status}: {_last(results / LOG)}")


def _builtin(scratch: Path, case: TestCase) -> tuple[list[str], dict[str, str]]:
    """The built-in driver's command and environment. ``scratch`` takes what it reads."""
    command = [sys.executable, "-m", builtin.__name__]
    scratch.mkdir(parents=True, exist_ok=True)
    if case.prompts:
        prompts = scratch / "prompts.json"
        prompts.write_text(json.dumps(case.prompts), encoding="utf-8")
        command += ["--prompts", str(prompts)]
    elif case.line is not None:
        text = scratch / "text.txt"
        text.write_text(llmperf.repeated(case.line), encoding="utf-8")
        command += ["--text", str(text)]
    return command, {"PYTHONPATH": str(Path(benchmark.__file__).parents[1])}


async def _execute(
    command: list[str], environment: Mapping[str, str], log: Path, timeout: float
) -> int | None:
    """The exit status, or None if it had to be stopped."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # so that it can be ended with all it started
        )
        try:
            return await asyncio.wait_for(process.wait(), timeout)
        except asyncio.TimeoutError:
            return None
        finally:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    # The group, even after the leader has ended: Ray's processes outlive it for a while.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
    await asyncio.shield(process.wait())


def _last(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"
