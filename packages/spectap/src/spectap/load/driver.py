"""Drives one turn of one variant from a process of its own: llmperf or the built-in driver."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import spectap
from spectap.errors import LoadError
from spectap.inputs.config import TestCase
from spectap.inputs.load_points import Load, LoadPoint
from spectap.inputs.prompt import Prompt
from spectap.load import builtin, llmperf
from spectap.names import LLMPERF
from spectap.protocol import access, limits
from spectap.protocol.text import EndpointType

LOG: Final = "driver.log"

GRACE_SECONDS: Final = 300.0
"""Added to the load's own timeout, which a driver checks only between requests: time for a last
request to a silent server (180 s), and for Ray to start and end."""


@dataclass(frozen=True)
class Driver:
    """The load generator: llmperf, or the built-in driver where ``installation`` is None."""

    installation: llmperf.Installation | None
    scratch: Path
    """A folder for what the load reads."""

    def uses_llmperf(self, load: Load, point: LoadPoint, *, named: bool) -> bool:
        """Whether llmperf makes this load, and not the built-in driver.

        Rates, completions, and ``named`` prompts that are sent as they are need the built-in
        driver.
        """
        is_chat = load.endpoint_type is EndpointType.CHAT
        return self.installation is not None and is_chat and not (named or point.open)

    async def run(
        self,
        *,
        model: str,
        case: TestCase,
        prompts: Sequence[Prompt],
        load: Load,
        point: LoadPoint,
        seed: str,
        endpoint: str,
        results: Path,
        answers: Path | None = None,
        until: asyncio.Future[None] | None = None,
        fill: int = 0,
    ) -> None:
        """Drives one endpoint with one case at one load point; writes the files into ``results``.

        ``prompts`` are sent in order; without any, the case's line is sent. The first ``fill``
        requests do not count; llmperf has none of these. ``seed`` determines made-up prompts and
        the times of an open loop; llmperf uses a seed of its own and sends the same each time.
        ``answers`` is the file for whole answers to ``prompts`` that count, one ``Answer`` a line.
        The built-in driver keeps a closed loop full ``until`` that future is done; llmperf ends by
        itself.

        Cancelling this ends the load's processes. Raises LoadError.
        """
        # One folder for all rounds: a copy of llmperf for each of them would add up.
        scratch = self.scratch / "-".join(results.parts[-4:-1])
        try:
            results.mkdir(parents=True, exist_ok=True)
            if answers is not None:
                answers.unlink(missing_ok=True)  # of an earlier turn
            is_llmperf = self.uses_llmperf(load, point, named=bool(prompts))
            installation = self.installation if is_llmperf else None
            if installation is None:
                name = builtin.OPEN if point.open else builtin.CLOSED
                command = _builtin(scratch, case, prompts)
                command += ["--endpoint-type", load.endpoint_type, "--seed", seed]
                command += ["--fill", str(fill)]
                if prompts and answers is not None:
                    command += ["--answers", str(answers)]
                if point.open:
                    command += ["--rate", str(point.rate)]
                # The tap is on loopback, without TLS: loading certificates is a fifth of the start.
                package = str(Path(spectap.__file__).parents[1])
                extra = {"PYTHONPATH": package, "SSL_CERT_FILE": os.devnull}
            else:
                name, until = LLMPERF, None  # and Ray's processes would hold the pipe
                command = installation.private_copy(scratch, case.line)
                extra = installation.environment(scratch, point.concurrency or 1)
            command += llmperf.arguments(load, point, model=model, results=results, driver=name)
        except OSError as error:
            raise LoadError(str(error)) from None
        environment = {
            **os.environ,
            **extra,
            "OPENAI_API_BASE": endpoint,
            "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY") or "none",
        }
        patience = load.timeout_seconds + GRACE_SECONDS
        try:
            status = await _execute(command, environment, results / LOG, patience, until)
        except OSError as error:
            shortage = limits.short_of_files(error)
            raise LoadError(limits.SHORTAGE if shortage else str(error)) from None
        finally:
            for path in results.iterdir():  # a server may repeat a key, and llmperf masks none
                written = path.read_bytes().decode("latin-1")
                path.write_bytes(access.masked(written).encode("latin-1"))
        if status is None:
            raise LoadError(f"{name} did not end and was stopped")
        if status != 0:
            lines = (results / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            raise LoadError(f"{name} ended with status {status}: {last.strip()[:200]}")


def _builtin(scratch: Path, case: TestCase, prompts: Sequence[Prompt]) -> list[str]:
    """The built-in driver's command. ``scratch`` takes what it reads."""
    command = [sys.executable, "-m", builtin.__name__]
    scratch.mkdir(parents=True, exist_ok=True)
    if prompts:
        option, text = "prompts", "".join(prompt.model_dump_json() + "\n" for prompt in prompts)
    elif case.line is not None:
        option, text = "text", case.line
    else:
        return command
    (scratch / option).write_text(text, encoding="utf-8")
    return [*command, f"--{option}", str(scratch / option)]


async def _execute(
    command: list[str],
    environment: Mapping[str, str],
    log: Path,
    timeout: float,
    until: asyncio.Future[None] | None,
) -> int | None:
    """The exit status, or None if it had to be stopped. Its standard input ends at ``until``."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL if until is None else asyncio.subprocess.PIPE,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # so that it can be ended with all it started
        )
        stdin = process.stdin
        if stdin is not None and until is not None:
            until.add_done_callback(lambda _: stdin.close())
        try:
            return await asyncio.wait_for(process.wait(), timeout)
        except TimeoutError:
            return None
        finally:
            # The group, even after the leader has ended: Ray's processes outlive it for a while.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
                await asyncio.shield(process.wait())
