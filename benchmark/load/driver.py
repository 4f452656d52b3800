"""Runs one round of load in a process of its own: llmperf's, or the small driver's."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmark.config import Load, TestCase
from benchmark.errors import LoadError
from benchmark.load import builtin, llmperf
from benchmark.load.llmperf import Installation

LOG: Final = "driver.log"

# Beyond the load's own timeout, which is looked at between requests only: one last request on a
# silent server (180 s), and the start and end of Ray.
GRACE_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Driver:
    """What makes the load. ``installation`` None stands for the small driver."""

    installation: Installation | None
    scratch: Path

    @classmethod
    def choose(cls, environment: Mapping[str, str], scratch: Path) -> Driver:
        """llmperf where it is installed. ``scratch`` takes its private copies."""
        return cls(llmperf.find(environment), scratch)

    @property
    def name(self) -> str:
        """What is said of the load in summaries."""
        return builtin.NAME if self.installation is None else llmperf.NAME

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
        """One case on one endpoint: ``requests`` requests, result files into ``results``.

        Cancelling it ends the load's processes. Raises LoadError.
        """
        results.mkdir(parents=True, exist_ok=True)
        scratch = self.scratch / "-".join(results.parts[-3:])
        try:
            command, extra = self._prepare(scratch, case, shape.concurrency)
            command += llmperf.arguments(
                shape, model=model, requests=requests, results=results, driver=self.name
            )
        except (LoadError, OSError) as error:
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
            raise LoadError(f"{self.name} did not end and was stopped")
        if status != 0:
            raise LoadError(f"{self.name} ended with status {status}: {_last(results / LOG)}")

    def _prepare(
        self, scratch: Path, case: TestCase, concurrency: int
    ) -> tuple[list[str], dict[str, str]]:
        if self.installation is not None:
            command = self.installation.private_copy(scratch, case.line)
            return command, self.installation.environment(scratch, concurrency)
        command = [sys.executable, "-m", builtin.__name__]
        if case.line is not None:
            scratch.mkdir(parents=True, exist_ok=True)
            text = scratch / "text.txt"
            text.write_text(llmperf.repeated(case.line), encoding="utf-8")
            command += ["--text", str(text)]
        return command, {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}


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
