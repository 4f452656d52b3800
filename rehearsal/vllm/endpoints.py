"""Real vLLM servers on the CPU, started with the charts' own commands."""

from __future__ import annotations

import contextlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from deployment.console import Console
from experiment import Experiment
from experiment.runtimes import Mode
from experiment.variants import Variant, variants
from rehearsal.endpoints import RunningEndpoints, Server, Servers
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.pod.caps import Caps
from rehearsal.pod.manifest import IndexedJob, read_deployment
from rehearsal.process.ports import lasting_port
from rehearsal.process.processes import Process, reason, running, text
from rehearsal.vllm import model_pair, ngram, pinning
from rehearsal.vllm.server_command import (
    NO_SUCH_DRAFT,
    Served,
    ServerCommand,
    server_command,
)
from spectap import config

START_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.5


class VllmEndpoints:
    """vLLM as PyPI has it, with a model pair made on this machine."""

    name: Final = "vLLM on the CPU with a pair of tiny models"
    stages: Final = 2
    # The servers have one core: with more sequences at once, a turn takes minutes.
    caps: Final = Caps(concurrency=4, rate_seconds=8, prompts=12)
    drafts_whole_window: Final = True
    # The load generator wants a core, too.
    at_once: Final = 1
    plays_jobs: Final = False
    start_seconds: Final = round(START_SECONDS)

    @contextlib.contextmanager
    def serving(
        self,
        experiment: Experiment,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> Iterator[RunningEndpoints]:
        """Makes the model pair, starts the servers, which are two stages, and ends them.

        Raises RehearsalError or ProcessError.
        """
        servers, beside = _servers(experiment, layout)
        _make_pair(experiment, layout, console)
        with contextlib.ExitStack() as stack:
            with console.stage(f"start {len(servers)} vLLM servers") as stage:
                core = _core()
                urls = stack.enter_context(_running(servers, core, environment, layout.logs))
                stage.found = ", ".join(f"{name} {url}" for name, url in urls.items())
            yield RunningEndpoints(urls, tuple(_said(servers)), (beside,))

    def servers(
        self,
        experiment: Experiment,
        job: IndexedJob,
        layout: Layout,
        environment: Mapping[str, str],
        console: Console,
    ) -> Servers:
        """Those of a sweep, by the commands of its Job. Raises RehearsalError or ProcessError."""
        _speculating(experiment)
        commands = {
            variant.name: server_command(job.server_of(index), _served(experiment, layout))
            for index, variant in enumerate(variants(experiment))
        }
        _make_pair(experiment, layout, console)
        of_each = {
            name: Server(
                f"{one.url}/v1",
                pinning.from_its_start(one.command, _core()),
                _around(one.environment, environment),
            )
            for name, one in commands.items()
        }
        return Servers(of_each, tuple(_said(commands)))


def _make_pair(experiment: Experiment, layout: Layout, console: Console) -> None:
    """Makes the model pair where there is none, which is one stage."""
    if not layout.vllm.exists():
        raise RehearsalError(f"{layout.vllm}: is missing; make rehearse-vllm sets it up")
    folder = model_pair.folder(experiment, layout)
    known = folder.is_dir()
    with console.stage("make the model pair", shows_itself=not known) as stage:
        if not known:
            model_pair.make(experiment, layout)
        stage.found = os.path.relpath(folder, layout.root)


def _speculating(experiment: Experiment) -> tuple[Variant, ...]:
    """The variants that speculate. Raises RehearsalError where the pair has no draft for one."""
    found = tuple(variant for variant in variants(experiment) if variant.mode)
    for variant in found:
        if variant.mode is not Mode.FUSED:
            raise RehearsalError(f"{variant.name}: mode {variant.mode}: {NO_SUCH_DRAFT}")
    return found


def _servers(
    experiment: Experiment, layout: Layout
) -> tuple[dict[str, ServerCommand], config.Variant]:
    """A server for each variant and one for the rehearsal's own, and that variant.

    Raises RehearsalError.
    """
    first, *_ = _speculating(experiment)
    pods = {
        variant.name: read_deployment(layout.manifests, variant.service)
        for variant in variants(experiment)
    }
    if ngram.NAME in pods:
        raise RehearsalError(f"{ngram.NAME} is the name of a variant that the rehearsal adds")
    pods[ngram.NAME] = ngram.served_by(pods[first.name])
    servers = {name: server_command(pod, _served(experiment, layout)) for name, pod in pods.items()}
    return servers, ngram.beside(first, f"{servers[ngram.NAME].url}/v1")


def _core() -> int:
    """The same for all: another one may be slower, and so would be what is served on it.

    Variants are measured in turn, and a server that nobody asks anything takes no time.
    """
    return max(os.sched_getaffinity(0))


def _served(experiment: Experiment, layout: Layout) -> Served:
    home = layout.work / "vllm"
    home.mkdir(parents=True, exist_ok=True)
    pair = model_pair.folder(experiment, layout)
    # vLLM does not report its port if it is told to take any.
    return Served(layout.vllm, pair / "target", pair / "draft", lasting_port(), _core(), home)


def _around(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """A server's own environment, with the search path and, if there is one, the key."""
    outside = {name: given[name] for name in ("PATH", "VLLM_API_KEY") if name in given}
    return {**outside, **own}


@contextlib.contextmanager
def _running(
    servers: Mapping[str, ServerCommand], core: int, environment: Mapping[str, str], logs: Path
) -> Iterator[dict[str, str]]:
    with contextlib.ExitStack() as stack:
        started = {
            name: stack.enter_context(
                running(
                    server.command,
                    _around(server.environment, environment),
                    logs / f"vllm-{name}.log",
                )
            )
            for name, server in servers.items()
        }
        for name, process in started.items():
            await_health(name, process, servers[name].url, logs / f"vllm-{name}.log")
        for process in started.values():
            pinning.from_now_on(process, core)
        yield {name: f"{server.url}/v1" for name, server in servers.items()}


def await_health(
    name: str, process: Process, url: str, log: Path, seconds: float = START_SECONDS
) -> None:
    """Returns once ``/health`` answers. Raises RehearsalError, at once if the process has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = reason(text(log))
            raise RehearsalError(
                f"vLLM for {name} ended with status {process.returncode}: {said}; see {log}"
            )
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        time.sleep(_POLL_SECONDS)
    raise RehearsalError(f"vLLM for {name} did not start within {seconds:.0f} s; see {log}")


def _said(servers: Mapping[str, ServerCommand]) -> Iterator[str]:
    yield "vLLM on the CPU, by the charts' commands. Differences from the pods:"
    of_each = [server.differences for server in servers.values()]
    common = [line for line in of_each[0] if all(line in lines for lines in of_each)]
    yield from common
    for name, lines in zip(servers, of_each, strict=True):
        yield from (f"{name}: {line}" for line in lines if line not in common)
