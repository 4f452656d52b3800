"""Two real vLLM servers on the CPU, started as the chart would start them."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmark.names import VARIANTS
from experiment import Experiment
from experiment.variants import variants
from rehearsal.console import Steps
from rehearsal.endpoints import Serving
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.pod.manifest import read_deployment
from rehearsal.process.processes import Process, reason, running, text
from rehearsal.vllm import model_pair
from rehearsal.vllm.server_command import Served, Server, adapt

START_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.5


class VllmEndpoints:
    """vLLM as PyPI has it, with a model pair made on this machine."""

    name: Final = "vLLM on the CPU with a pair of tiny models"
    steps: Final = 2
    # On one core each, more sequences at once would measure the core: verification is not free.
    load: Final[Mapping[str, int]] = {"concurrency": 1}

    @contextlib.contextmanager
    def serving(
        self,
        experiment: Experiment,
        layout: Layout,
        environment: Mapping[str, str],
        steps: Steps,
    ) -> Iterator[Serving]:
        """Starts both, shows it as two of ``steps``, and ends them. Raises RehearsalError."""
        if not layout.vllm.exists():
            raise RehearsalError(f"{layout.vllm}: is missing; make rehearse-vllm sets it up")
        known = model_pair.find(experiment, layout)
        with steps.step("make the model pair", shows_itself=known is None) as step:
            folder = known or model_pair.make(experiment, layout)
            step.found = os.path.relpath(folder, layout.root)
        servers = _servers(experiment, layout, folder)
        with contextlib.ExitStack() as stack:
            with steps.step("start two vLLM servers") as step:
                urls = stack.enter_context(_running(servers, layout.logs))
                step.found = ", ".join(f"{name} {url}" for name, url in urls.items())
            yield Serving(urls, tuple(_said(servers)))


def _servers(experiment: Experiment, layout: Layout, folder: Path) -> dict[str, Server]:
    home = layout.work / "vllm"
    home.mkdir(parents=True, exist_ok=True)
    cores = sorted(os.sched_getaffinity(0))
    return {
        name: adapt(
            read_deployment(layout.manifests, variant.service),
            Served(
                python=layout.vllm,
                target=folder / "target",
                draft=folder / "draft",
                port=_free_port(),
                core=cores[index % len(cores)],
                home=home,
            ),
        )
        for index, (name, variant) in enumerate(zip(VARIANTS, variants(experiment), strict=True))
    }


@contextlib.contextmanager
def _running(servers: Mapping[str, Server], logs: Path) -> Iterator[dict[str, str]]:
    with contextlib.ExitStack() as stack:
        started = {
            name: stack.enter_context(
                running(
                    server.command,
                    {"PATH": os.environ["PATH"], **server.environment},
                    logs / f"vllm-{name}.log",
                )
            )
            for name, server in servers.items()
        }
        for name, process in started.items():
            await_health(name, process, servers[name].url, logs / f"vllm-{name}.log")
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


def _said(servers: Mapping[str, Server]) -> Iterator[str]:
    yield "vLLM on the CPU, by the chart's command. Not as in its pods:"
    of_each = [server.differences for server in servers.values()]
    common = [line for line in of_each[0] if all(line in lines for lines in of_each)]
    yield from common
    for name, lines in zip(servers, of_each, strict=True):
        yield from (f"{name}: {line}" for line in lines if line not in common)


def _free_port() -> int:
    # vLLM does not say which port it took if it is told to take any.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
